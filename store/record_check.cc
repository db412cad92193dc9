#include "store/record_check.h"

#include <algorithm>

#include "store/error.h"

namespace shoal {
namespace {

// The processor's own prefetching stops at the end of a page.
constexpr std::size_t kPiece = 4096;
constexpr std::size_t kLine = 64;

}  // namespace

void RecordCheck::begin(const std::byte* record, const RecordId& expected, std::uint64_t record_bytes,
                        std::uint64_t store_id) {
  record_ = record;
  at_ = payload(record);
  bytes_ = record_bytes;
  store_id_ = store_id;
  expected_ = expected;
  hash_.begin(header_hash(record));
}

void RecordCheck::advance(const void* end) {
  if (!due()) return;
  const auto* const to = std::min(static_cast<const std::byte*>(end), record_ + bytes_);
  if (to <= at_) return;
  hash_.add(at_, static_cast<std::size_t>(to - at_));
  at_ = to;
}

void RecordCheck::advance_to_end() {
  if (!due()) return;
  const std::byte* const end = record_ + bytes_;
  while (at_ < end) {
    const std::byte* const next = at_ + kPiece;
    for (const std::byte* line = next; line < std::min(next + kPiece, end); line += kLine)
      __builtin_prefetch(line, 0, 2);
    advance(next);
  }
}

std::string RecordCheck::finish() {
  SHOAL_CHECK(due());
  advance_to_end();
  const std::byte* const record = record_;
  record_ = nullptr;
  return defect(record, expected_, bytes_, store_id_, hash_.digest());
}

}  // namespace shoal
