#include "pipeline/trace_file.h"

#include <fmt/format.h>

#include <utility>

#include "store/error.h"

namespace shoal {
namespace {

constexpr std::string_view kComma = ",\n";
constexpr std::size_t kLongestEvent = 512;

std::string lane_name(std::uint32_t lane) {
  switch (lane) {
    case Trace::kRoundLane: return "rounds";
    case Trace::kReadyLane: return "nodes that are ready";
    case Trace::kStoreLane: return "store";
    default: return fmt::format("worker {}", lane);
  }
}

}  // namespace

// Some viewers take process 0 for the kernel's.
TraceText::TraceText(const Trace& trace, unsigned rank, std::string name)
    : trace_(trace), process_(rank + 1), name_(std::move(name)), events_(trace.report().events) {}

std::string TraceText::next(std::size_t bytes) {
  std::string text;
  text.reserve(bytes + kLongestEvent);
  if (!std::exchange(named_, true)) {
    text +=
        fmt::format(R"({}{{"name":"process_name","ph":"M","pid":{},"args":{{"name":"{}"}}}})", kComma, process_, name_);
  }
  while (drawn_ < events_ && text.size() < bytes) {
    const Trace::Event& event = trace_.drawn(drawn_++);
    if (lanes_.insert(event.lane).second) {
      text += fmt::format(R"({}{{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", kComma,
                          process_, event.lane, lane_name(event.lane));
    }
    text += fmt::format(R"({}{{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})", kComma, event.name,
                        process_, event.lane, static_cast<double>(event.from) / 1000,
                        static_cast<double>(event.length) / 1000);
    if (event.number != Trace::kNoNumber) {
      text += fmt::format(R"(,"args":{{"{}":{}}})", event.lane == Trace::kRoundLane ? "round" : "node", event.number);
    }
    text += "}";
  }
  if (!text.empty()) text.erase(0, kComma.size());
  return text;
}

TraceFile::TraceFile(std::filesystem::path path) : path_(std::move(path)), out_(path_) {
  out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  require_good();
}

void TraceFile::add(std::string_view text) {
  if (text.empty()) return;
  if (!std::exchange(empty_, false)) out_ << kComma;
  out_ << text;
  require_good();
}

void TraceFile::finish() {
  out_ << "\n]}\n";
  out_.close();
  require_good();
}

void TraceFile::require_good() const {
  if (out_) return;
  throw Error(fmt::format("{}: cannot be written; is the disk full? All else of the run is there", path_.string()));
}

}  // namespace shoal
