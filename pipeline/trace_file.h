// trace.json, for Chrome's and Perfetto's viewers: the traces of all ranks, each a process there, whose rows are what
// its threads did. It is made in pieces, so that ranks need not hold, nor send, all of their text at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "pipeline/trace.h"

namespace shoal {

// A rank's part of it. The trace must outlive it, and take no more events.
class TraceText {
 public:
  TraceText(const Trace& trace, unsigned rank, std::string name);

  // Whole events with commas between them, till they have about so many bytes. Empty: that was all.
  std::string next(std::size_t bytes);

 private:
  const Trace& trace_;
  const unsigned process_;
  const std::string name_;
  const std::size_t events_;
  std::size_t drawn_ = 0;
  bool named_ = false;
  std::set<std::uint32_t> lanes_;  // that have their names
};

class TraceFile {
 public:
  static constexpr std::size_t kPiece = 512 << 10;     // text that is on the way at a time, of all ranks
  static constexpr std::uint64_t kBytes = 2 * kPiece;  // of memory: as it was made, and as it came

  explicit TraceFile(std::filesystem::path path);
  void add(std::string_view text);  // what next() gave, of any rank, in any order
  void finish();

 private:
  void require_good() const;

  std::filesystem::path path_;
  std::ofstream out_;
  bool empty_ = true;
};

}  // namespace shoal
