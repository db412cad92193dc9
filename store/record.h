// A record as it lies in a frame, in a slot and in the cold tier: a 64-byte header, the payload, zeros to the end of
// the last block.
//
// The header says whose record it is and which version, so that a read that lands on the wrong slot or finds an old
// version is noticed, and carries an XXH3 checksum over everything, the padding included. docs/on-disk-format.md has
// the offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "store/types.h"

namespace shoal {

struct RecordHeader {
  std::uint32_t magic = 0;
  std::uint8_t part = 0;
  std::uint8_t reserved[3] = {};
  std::uint32_t node = 0;
  std::uint32_t reserved2 = 0;
  Version version = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t store_id = 0;  // records of another store are never taken for ours
  std::uint64_t reserved3[2] = {};
  std::uint64_t checksum = 0;  // XXH3-64 of all the record's other bytes
};
static_assert(sizeof(RecordHeader) == 64);

struct RecordId {
  Part part = Part::kPublic;
  NodeId node = kNoNode;
  Version version = 0;
};

std::byte* payload(std::byte* record);
const std::byte* payload(const std::byte* record);

// Writes the header: the record may go to disk.
void seal(std::byte* record, const RecordId& id, std::uint64_t record_bytes, std::uint64_t store_id);

// Empty when the record is whole and is the one expected; otherwise what is wrong with it ("checksum 1f.. does not
// match 20..").
std::string defect(const std::byte* record, const RecordId& expected, std::uint64_t record_bytes,
                   std::uint64_t store_id);

// The same, for one who has the checksum of the payload and the padding already: XXH3-64 with header_hash() as its
// seed.
std::uint64_t header_hash(const std::byte* record);
std::string defect(const std::byte* record, const RecordId& expected, std::uint64_t record_bytes,
                   std::uint64_t store_id, std::uint64_t checksum);

// All zero? Stops at the first byte that is not, so it costs nothing for trained state.
bool all_zero(std::span<const std::byte> bytes);

}  // namespace shoal
