#include "store/manifest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "store/error.h"

namespace shoal {
namespace {

std::string checksum_of(const std::string& body) {
  return fmt::format("{:016x}", XXH3_64bits(body.data(), body.size()));
}

void sync_path(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) throw_errno(fmt::format("opening {}", path.string()), errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (error != 0) throw_errno(fmt::format("fsync of {}", path.string()), error);
}

}  // namespace

void write_file_durably(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << text;
    file.flush();
    if (!file) throw_errno(fmt::format("writing {}", temporary.string()), errno);
  }
  sync_file(temporary);
  std::filesystem::rename(temporary, path);
  sync_path(path.parent_path(), O_RDONLY | O_DIRECTORY);
}

void sync_file(const std::filesystem::path& path) { sync_path(path, O_RDONLY); }

std::filesystem::path Manifest::path(const std::filesystem::path& directory) { return directory / "manifest.json"; }

bool Manifest::exists(const std::filesystem::path& directory) { return std::filesystem::exists(path(directory)); }

void Manifest::write(const std::filesystem::path& directory) const {
  nlohmann::ordered_json body = {{"format", kFormat},
                                 {"store_id", fmt::format("{:016x}", store_id)},
                                 {"nodes", nodes},
                                 {"public_record_bytes", layout.record_bytes(Part::kPublic)},
                                 {"private_record_bytes", layout.record_bytes(Part::kPrivate)},
                                 {"layout", nlohmann::ordered_json::parse(layout.serialize())}};
  const nlohmann::ordered_json file = {{"shoal_store", body}, {"checksum", checksum_of(body.dump())}};
  write_file_durably(path(directory), file.dump(2) + "\n");
}

Manifest Manifest::read(const std::filesystem::path& directory) {
  const std::string where = path(directory).string();
  std::ifstream stream(path(directory), std::ios::binary);
  if (!stream) throw Error(fmt::format("there is no store in {}: {} is missing", directory.string(), where));
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const auto damaged = [&](std::string_view why) -> Error {
    return Error(fmt::format("{} is damaged ({}); restore it from a copy or start over", where, why));
  };
  try {
    const auto file = nlohmann::ordered_json::parse(text);
    const auto& body = file.at("shoal_store");
    const auto format = body.at("format").get<std::uint32_t>();
    // A flipped bit must not pass for another version: the checksum is looked at first.
    if (file.at("checksum").get<std::string>() != checksum_of(body.dump()))
      throw damaged("its checksum does not match");
    if (format != kFormat) {
      throw Error(
          fmt::format("{} is of format version {}, and this program reads version {}; use the program that made it",
                      where, format, kFormat));
    }
    // Whatever the parser skips (white space, a second key) must be as we wrote it as well.
    if (file.dump(2) + "\n" != text) throw damaged("it is not as it was written");
    Manifest manifest;
    manifest.store_id = std::stoull(body.at("store_id").get<std::string>(), nullptr, 16);
    manifest.nodes = body.at("nodes").get<NodeId>();
    manifest.layout = StateLayout::parse(body.at("layout").dump());
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    throw damaged(error.what());
  }
}

void Manifest::require_id(std::uint64_t wanted, const std::filesystem::path& directory) const {
  if (wanted == 0 || wanted == store_id) return;
  throw Error(fmt::format("the store in {} is another one: its id is {:016x}, and {:016x} is asked for",
                          directory.string(), store_id, wanted));
}

void Manifest::require(const StateLayout& wanted_layout, NodeId wanted_nodes,
                       const std::filesystem::path& directory) const {
  const auto refuse = [&](const std::string& why) {
    throw Error(
        fmt::format("the store in {} is another run's: {}. Nothing was changed; choose another directory or ask "
                    "for it to be overwritten",
                    directory.string(), why));
  };
  if (nodes != wanted_nodes) refuse(fmt::format("it has {} nodes, this run {}", nodes, wanted_nodes));
  if (const auto difference = layout.difference(wanted_layout)) refuse("its layout differs: " + *difference);
}

}  // namespace shoal
