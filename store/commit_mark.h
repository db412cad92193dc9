// A second witness for the number of the last commit: a file beside the database.
//
// RocksDB reads its MANIFEST up to the first record that seems cut off, as a crash would leave it. A flipped bit in a
// record's length looks just like that and would silently roll the database back to an earlier commit. So the number is
// in the database, and is written here after each commit: a database that is behind its mark has lost something.
#pragma once

#include <cstdint>
#include <filesystem>

namespace shoal {

std::filesystem::path commit_mark_path(const std::filesystem::path& directory);
std::uint64_t read_commit_mark(const std::filesystem::path& directory);  // 0 without a mark; Error when it is damaged
void write_commit_mark(const std::filesystem::path& directory, std::uint64_t commit);  // durable on return

// Error unless the database is where the mark is, or, after a crash between the two, one commit ahead.
void require_commit(const std::filesystem::path& directory, std::uint64_t in_database, std::uint64_t mark);

}  // namespace shoal
