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

std::string chunk_key(Epoch epoch, std::size_t chunk) { return fmt::format("slots/{}/{:06}", epoch % 2, chunk); }

nlohmann::json json_of(const Checkpoint& checkpoint) {
  nlohmann::json garbage = nlohmann::json::array();
  for (const ColdKey& key : checkpoint.garbage) garbage.push_back({static_cast<int>(key.part), key.node, key.stamp});
  // The note is the caller's bytes: any, not only UTF-8.
  const std::vector<std::uint8_t> note(checkpoint.note.begin(), checkpoint.note.end());
  return {{"epoch", checkpoint.epoch}, {"note", note}, {"garbage", garbage}};
}

Checkpoint checkpoint_of(const nlohmann::json& json) {
  Checkpoint checkpoint;
  checkpoint.epoch = json.at("epoch").get<Epoch>();
  const auto note = json.at("note").get<std::vector<std::uint8_t>>();
  checkpoint.note.assign(note.begin(), note.end());
  for (const auto& key : json.at("garbage")) {
    checkpoint.garbage.push_back(
        {static_cast<Part>(key.at(0).get<int>()), key.at(1).get<NodeId>(), key.at(2).get<Epoch>()});
  }
  return checkpoint;
}

}  // namespace

void CheckpointHead::require(const Manifest& manifest, const std::filesystem::path& directory,
                             const std::filesystem::path& cold_directory) const {
  if (store_id == manifest.store_id && nodes == manifest.nodes) return;
  throw Error(fmt::format("the cold tier in {} belongs to another store than {}; give the one it was made with",
                          cold_directory.string(), directory.string()));
}

MetadataValues checkpoint_values(const CheckpointHead& head) {
  nlohmann::json checkpoints = nlohmann::json::array();
  for (const Checkpoint& checkpoint : head.checkpoints) checkpoints.push_back(json_of(checkpoint));
  const nlohmann::json json = {{"store_id", head.store_id}, {"nodes", head.nodes}, {"checkpoints", checkpoints}};
  return {{"checkpoint", with_checksum(json.dump())}};
}

MetadataValues checkpoint_values(const CheckpointHead& head, std::span<const SlotEntry> entries) {
  MetadataValues values = checkpoint_values(head);
  for (std::size_t begin = 0, chunk = 0; begin < entries.size(); begin += kChunkEntries, ++chunk) {
    const auto part = entries.subspan(begin, std::min(kChunkEntries, entries.size() - begin));
    values.emplace_back(chunk_key(head.checkpoints.back().epoch, chunk),
                        with_checksum({reinterpret_cast<const char*>(part.data()), part.size_bytes()}));
  }
  return values;
}

CheckpointHead read_checkpoint_head(const ColdTier& cold, const std::string& directory) {
  const auto json = nlohmann::json::parse(checked_value(cold, "checkpoint", directory));
  CheckpointHead head;
  head.store_id = json.at("store_id").get<std::uint64_t>();
  head.nodes = json.at("nodes").get<NodeId>();
  for (const auto& checkpoint : json.at("checkpoints")) head.checkpoints.push_back(checkpoint_of(checkpoint));
  return head;
}

std::vector<SlotEntry> read_checkpoint_entries(const ColdTier& cold, NodeId nodes, Epoch epoch,
                                               const std::string& directory) {
  std::vector<SlotEntry> entries(nodes);
  for (std::size_t begin = 0, chunk = 0; begin < entries.size(); begin += kChunkEntries, ++chunk) {
    const std::string key = chunk_key(epoch, chunk);
    const std::string body = checked_value(cold, key, directory);
    const std::size_t count = std::min(kChunkEntries, entries.size() - begin);
    if (body.size() != count * sizeof(SlotEntry)) {
      throw Error(fmt::format("the checkpoint in {} is damaged: '{}' has the wrong size", directory, key));
    }
    std::memcpy(entries.data() + begin, body.data(), body.size());
  }
  return entries;
}

const Checkpoint& chosen_checkpoint(const CheckpointHead& head, std::optional<std::uint64_t> epoch,
                                    const std::string& directory) {
  if (!epoch) return head.checkpoints.back();
  std::string there;
  for (const Checkpoint& checkpoint : head.checkpoints) {
    if (checkpoint.epoch == *epoch) return checkpoint;
    there += fmt::format("{}{}", there.empty() ? "" : " and ", checkpoint.epoch);
  }
  throw Error(fmt::format("there is no checkpoint {} in {}: it has {}. Nothing was changed; ask for one that is there",
                          *epoch, directory, there));
}

}  // namespace shoal
