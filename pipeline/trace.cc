#include "pipeline/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "store/error.h"

namespace shoal {

void Trace::add(const char* name, std::uint32_t lane, Clock::time_point from, Clock::time_point to,
                std::uint64_t node) noexcept {
  const std::size_t place = used_.fetch_add(1, std::memory_order_relaxed);
  if (place >= events_.size()) return;
  events_[place] = {name, lane, std::chrono::nanoseconds(from - start_).count(),
                    std::chrono::nanoseconds(to - from).count(), node};
}

std::uint64_t Trace::left_out() const { return used_ - std::min(used_.load(), events_.size()); }

void Trace::write(const std::filesystem::path& file) const {
  std::ofstream out(file);
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  std::set<std::uint32_t> lanes;
  const std::size_t count = std::min(used_.load(), events_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Event& event = events_[i];
    lanes.insert(event.lane);
    out << fmt::format(R"({{"name":"{}","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f})", event.name, event.lane,
                       static_cast<double>(event.from) / 1000, static_cast<double>(event.length) / 1000);
    if (event.node != kNoNode) out << fmt::format(R"(,"args":{{"node":{}}})", event.node);
    out << "},\n";
  }
  for (const std::uint32_t lane : lanes) {
    out << fmt::format(R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}},)", lane,
                       lane == kMainLane ? std::string("rounds") : fmt::format("worker {}", lane))
        << '\n';
  }
  out << R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"shoal-train"}}]})" << '\n';
  if (!out.flush()) throw Error(fmt::format("{}: cannot be written; is the disk full?", file.string()));
}

}  // namespace shoal
