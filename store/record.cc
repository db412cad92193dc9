#include "store/record.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

#include "store/checksum.h"

namespace shoal {
namespace {

constexpr std::uint32_t kMagic = 0x4c414853;  // "SHAL" in the file
constexpr const char* kNoHeader = "it holds no record header of this layout";

bool has_header(const std::byte* record, std::uint64_t record_bytes) {
  RecordHeader header;
  std::memcpy(&header, record, sizeof(header));
  return header.magic == kMagic && header.record_bytes == record_bytes;
}

std::uint64_t checksum_of(const std::byte* record, std::uint64_t record_bytes) {
  return xxh3(payload(record), record_bytes - sizeof(RecordHeader), header_hash(record));
}

}  // namespace

std::byte* payload(std::byte* record) { return record + sizeof(RecordHeader); }
const std::byte* payload(const std::byte* record) { return record + sizeof(RecordHeader); }

std::uint64_t header_hash(const std::byte* record) { return XXH3_64bits(record, offsetof(RecordHeader, checksum)); }

void seal(std::byte* record, const RecordId& id, std::uint64_t record_bytes, std::uint64_t store_id) {
  RecordHeader header;
  header.magic = kMagic;
  header.part = static_cast<std::uint8_t>(id.part);
  header.node = id.node;
  header.version = id.version;
  header.record_bytes = record_bytes;
  header.store_id = store_id;
  std::memcpy(record, &header, sizeof(header));
  header.checksum = checksum_of(record, record_bytes);
  std::memcpy(record, &header, sizeof(header));
}

std::string defect(const std::byte* record, const RecordId& expected, std::uint64_t record_bytes,
                   std::uint64_t store_id) {
  if (!has_header(record, record_bytes)) return kNoHeader;  // then nobody knows how many bytes there are
  return defect(record, expected, record_bytes, store_id, checksum_of(record, record_bytes));
}

std::string defect(const std::byte* record, const RecordId& expected, std::uint64_t record_bytes,
                   std::uint64_t store_id, std::uint64_t checksum) {
  if (!has_header(record, record_bytes)) return kNoHeader;
  RecordHeader header;
  std::memcpy(&header, record, sizeof(header));
  // The checksum first: with it intact, what differs below is a record in the wrong place, not a damaged one.
  if (checksum != header.checksum) {
    return fmt::format("checksum {:016x} is stored, {:016x} was computed", header.checksum, checksum);
  }
  if (header.store_id != store_id) return "it belongs to another store";
  if (header.node != expected.node || header.part != static_cast<std::uint8_t>(expected.part)) {
    return fmt::format("it holds the {} record of node {}", name(static_cast<Part>(header.part)), header.node);
  }
  if (header.version != expected.version) {
    return fmt::format("it holds version {}, and version {} is expected", header.version, expected.version);
  }
  return {};
}

bool all_zero(std::span<const std::byte> bytes) {
  // Comparing the range with itself shifted by one lets memcmp do it at memory speed.
  if (bytes.empty()) return true;
  return bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace shoal
