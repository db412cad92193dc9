#include "planner/record_items.h"

#include <fmt/format.h>

#include <string>

#include "store/record.h"

namespace shoal {

std::vector<StateItem> record_items(const std::vector<StateItem>& state, const StateLayout& layout) {
  std::vector<StateItem> items = state;
  for (const Part part : kParts) {
    const std::uint64_t record = layout.record_bytes(part);
    std::uint64_t named = sizeof(RecordHeader);
    for (const StateItem& item : state) named += item.part == part ? item.bytes : 0;
    const std::string which(name(part));
    items.push_back({which + " header", part, sizeof(RecordHeader), "node, version and XXH3 checksum: 64 B a record"});
    items.push_back(
        {which + " padding", part, record - named,
         fmt::format("tensors to 64 B, the record to whole blocks of {} B: {} - {}", kBlockBytes, record, named)});
  }
  return items;
}

}  // namespace shoal
