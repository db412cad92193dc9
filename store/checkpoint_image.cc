#include "store/checkpoint_image.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "store/error.h"

namespace shoal {
namespace {

constexpr std::size_t kChunkEntries = 64 << 10;  // 1 MiB a value

std::string with_checksum(std::string body) {
  const std::uint64_t checksum = XXH3_64bits(body.data(), body.size());
  body.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  return body;
}

std::string checked_value(const ColdTier& cold, const std::string& key, const std::string& directory) {
  auto value = cold.value(key);
  const auto damaged = [&](std::string_view why) {
    return Error(
        fmt::format("the checkpoint in {} is damaged: '{}' {}; restore the directory from a copy or start over",
                    directory, key, why));
  };
  if (!value) throw damaged("is missing");
  std::uint64_t checksum = 0;
  if (value->size() < sizeof(checksum)) throw damaged("is too short");
  const std::size_t body = value->size() - sizeof(checksum);
  std::memcpy(&checksum, value->data() + body, sizeof(checksum));
  if (checksum != XXH3_64bits(value->data(), body)) throw damaged("does not match its checksum");
  value->resize(body);
  return *std::move(value);
}

std::string chunk_key(std::size_t chunk) { return fmt::format("slots/{:06}", chunk); }

}  // namespace

std::vector<std::pair<std::string, std::string>> checkpoint_values(const CheckpointHead& head,
                                                                   std::span<const SlotEntry> entries) {
  nlohmann::json garbage = nlohmann::json::array();
  for (const ColdKey& key : head.garbage) garbage.push_back({static_cast<int>(key.part), key.node, key.stamp});
  // The note is the caller's bytes: any, not only UTF-8.
  const std::vector<std::uint8_t> note(head.note.begin(), head.note.end());
  const nlohmann::json json = {
      {"store_id", head.store_id}, {"nodes", head.nodes}, {"epoch", head.epoch}, {"note", note}, {"garbage", garbage}};
  std::vector<std::pair<std::string, std::string>> values;
  values.emplace_back("checkpoint", with_checksum(json.dump()));
  for (std::size_t begin = 0, chunk = 0; begin < entries.size(); begin += kChunkEntries, ++chunk) {
    const auto part = entries.subspan(begin, std::min(kChunkEntries, entries.size() - begin));
    values.emplace_back(chunk_key(chunk),
                        with_checksum({reinterpret_cast<const char*>(part.data()), part.size_bytes()}));
  }
  return values;
}

CheckpointHead read_checkpoint_head(const ColdTier& cold, const std::string& directory) {
  const auto json = nlohmann::json::parse(checked_value(cold, "checkpoint", directory));
  CheckpointHead head;
  head.store_id = json.at("store_id").get<std::uint64_t>();
  head.nodes = json.at("nodes").get<NodeId>();
  head.epoch = json.at("epoch").get<Epoch>();
  const auto note = json.at("note").get<std::vector<std::uint8_t>>();
  head.note.assign(note.begin(), note.end());
  for (const auto& key : json.at("garbage")) {
    head.garbage.push_back({static_cast<Part>(key.at(0).get<int>()), key.at(1).get<NodeId>(), key.at(2).get<Epoch>()});
  }
  return head;
}

std::vector<SlotEntry> read_checkpoint_entries(const ColdTier& cold, const CheckpointHead& head,
                                               const std::string& directory) {
  std::vector<SlotEntry> entries(head.nodes);
  for (std::size_t begin = 0, chunk = 0; begin < entries.size(); begin += kChunkEntries, ++chunk) {
    const std::string body = checked_value(cold, chunk_key(chunk), directory);
    const std::size_t count = std::min(kChunkEntries, entries.size() - begin);
    if (body.size() != count * sizeof(SlotEntry)) {
      throw Error(fmt::format("the checkpoint in {} is damaged: '{}' has the wrong size", directory, chunk_key(chunk)));
    }
    std::memcpy(entries.data() + begin, body.data(), body.size());
  }
  return entries;
}

}  // namespace shoal
