#include "planner/disk_space.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

#include "store/file_system.h"

namespace shoal {

DiskShare share_of_disk(const std::filesystem::path& folder, std::string host) {
  const FileSystem disk = file_system_of(folder);
  DiskShare share;
  share.host = std::move(host);
  share.folder = folder.string();
  share.file_system = disk.id;
  share.free_bytes = disk.free_bytes;
  return share;
}

std::uint64_t bytes_below(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (std::filesystem::recursive_directory_iterator at(folder, ignored), end; at != end; at.increment(ignored)) {
    struct ::stat status {};
    if (::lstat(at->path().c_str(), &status) == 0) bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

std::vector<DiskShare> RankDisk::with(const DiskNeed& need) const {
  std::vector<DiskShare> shares = {store, cold};
  shares[0].needed_bytes = need.store;
  shares[1].needed_bytes = need.cold;
  return shares;
}

std::vector<SharedDisk> add_up(const std::vector<DiskShare>& shares) {
  std::vector<SharedDisk> disks;
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> places;
  std::vector<std::uint64_t> there;
  for (const DiskShare& share : shares) {
    const auto [found, added] = places.try_emplace({share.host, share.file_system}, disks.size());
    if (added) {
      disks.push_back({share.host, share.folder, 0, 0, share.free_bytes});
      there.push_back(0);
    }
    SharedDisk& disk = disks[found->second];
    ++disk.folders;
    disk.needed_bytes += share.needed_bytes;
    // Looked at one after the other, while others may write there.
    disk.available_bytes = std::min(disk.available_bytes, share.free_bytes);
    there[found->second] += share.there_bytes;
  }
  for (std::size_t i = 0; i < disks.size(); ++i) disks[i].available_bytes += there[i];
  return disks;
}

}  // namespace shoal
