// Commits to a cold tier until somebody kills it: its crash test does, with SIGKILL, at a random moment.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "store/cold_tier.h"
#include "tests/store/cold_scenario.h"
#include "tests/store/killed_child.h"

int main(int argc, char** argv) {
  using namespace shoal;
  if (argc != 2) return 2;
  try {
    const std::filesystem::path directory = argv[1];
    const bool there = std::filesystem::exists(directory / "CURRENT");
    MemoryBudget budget(1 << 30);
    ColdTier tier({directory, kColdMinimumBytes, there ? ColdAccess::kOpen : ColdAccess::kCreate}, budget);
    const auto last = tier.value("number");
    for (std::uint64_t number = last ? std::stoull(*last) + 1 : 1;; ++number) {
      const Epoch epoch = static_cast<Epoch>(number);
      for (NodeId node = 0; node < kCrashNodes; ++node) {
        if (number % 2 == 0) tier.put(epoch, Part::kPublic, node, crash_record(number, node));
      }
      tier.flush();
      Record record;
      if (number % 2 == 1) {
        tier.ingest(epoch, Part::kPublic, std::vector<NodeId>{0, 1, 2}, [&](NodeId node) {
          record = crash_record(number, node);
          return std::span<const std::byte>(record);
        });
      }
      tier.commit(crash_values(number));
      if (!testing::tell_parent(number)) return 1;
      if (number > 2) tier.erase_epochs(epoch - 2, epoch - 2);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cold crash child: %s\n", error.what());
    return 1;
  }
}
