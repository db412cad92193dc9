#include "trainer/graph_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "store/error.h"
#include "trainer/disjoint_sets.h"

namespace shoal {
namespace {

using Edges = std::vector<std::pair<NodeId, NodeId>>;

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view next_column(std::string_view& line) {
  constexpr std::string_view kBetween = " \t\r,;";
  line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
  const std::string_view column = line.substr(0, line.find_first_of(kBetween));
  line.remove_prefix(column.size());
  return column;
}

struct SizeLine {
  std::uint64_t nodes = 0;
  std::uint64_t lines = 0;
};

class EdgeListReader {
 public:
  explicit EdgeListReader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    // A directory opens, and then reads as empty.
    if (!file_ || std::filesystem::is_directory(path)) {
      const int error = file_ ? EISDIR : errno;
      throw Error(fmt::format("cannot read the graph {}: {}", path, errno_text(error)), ExitCode::kUsage);
    }
  }

  NamedGraph read() {
    std::string line;
    while (std::getline(file_, line)) {
      ++line_;
      take_line(line);
    }
    if (file_.bad()) throw_errno(fmt::format("reading the graph {}", path_), errno);
    finish_sizes();
    if (edges_.empty()) throw Error(fmt::format("{} has no edges; one a line is expected", path_), ExitCode::kUsage);
    return largest_component();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}, line {}: {}", path_, line_, what), ExitCode::kUsage);
  }

  void take_line(std::string_view line) {
    if (line_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (line_ == 1 && line.starts_with("\x1f\x8b")) fail("the file is compressed; unpack it first (gunzip)");
    if (line.starts_with("%%MatrixMarket")) return take_banner(line);
    std::string_view rest = line;
    const std::string_view first = next_column(rest);
    if (first.empty() || first[0] == '#' || first[0] == '%') return;
    const std::string_view second = next_column(rest);
    if (std::ranges::any_of(
            line, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) && c != '\t' && c != '\r'; })) {
      fail("this is not text");
    }
    if (second.empty()) fail(fmt::format("two node names are expected, not '{}'", first.substr(0, 40)));
    if (matrix_market_ && !size_) return take_size(first, second, next_column(rest));
    if (matrix_market_) check_index(first), check_index(second);
    if (!matrix_market_ && names_.empty() && next_column(rest).empty()) note_first_line(first, second);
    const NodeId a = node(first);
    edges_.emplace_back(a, node(second));
  }

  void take_banner(std::string_view line) {
    if (line_ != 1) fail("%%MatrixMarket is expected in the first line only");
    std::string kind(line);
    std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (kind.find("coordinate") == std::string::npos)
      fail("only Matrix Market files of kind 'coordinate' are edge lists");
    matrix_market_ = true;
  }

  void take_size(std::string_view rows, std::string_view columns, std::string_view entries) {
    const auto n = whole_number(rows);
    const auto m = whole_number(entries);
    if (!n || !m || rows != columns) {
      fail("a size line is expected: rows, columns, entries, with as many columns as rows");
    }
    size_ = SizeLine{*n, *m};
    size_line_ = line_;
  }

  void check_index(std::string_view text) const {
    const auto index = whole_number(text);
    if (!index || *index < 1 || *index > size_->nodes) {
      fail(fmt::format("'{}' is not a row from 1 to {}, the size in line {}", text, size_->nodes, size_line_));
    }
  }

  void note_first_line(std::string_view first, std::string_view second) {
    const auto n = whole_number(first);
    const auto m = whole_number(second);
    if (n && m) maybe_size_ = SizeLine{*n, *m};
    size_line_ = line_;
  }

  NodeId node(std::string_view name) {
    const auto [place, is_new] = ids_.try_emplace(std::string(name), static_cast<NodeId>(names_.size()));
    if (is_new) {
      if (names_.size() == kNoNode) fail("too many nodes");
      names_.push_back(place->first);
    }
    return place->second;
  }

  void finish_sizes() {
    if (matrix_market_ && !size_) {
      throw Error(fmt::format("{} ends before its size line", path_), ExitCode::kUsage);
    }
    if (size_ && edges_.size() != size_->lines) {
      throw Error(fmt::format("{}, line {}: {} entries are announced, but {} follow; the file is cut off or damaged",
                              path_, size_line_, size_->lines, edges_.size()),
                  ExitCode::kUsage);
    }
    if (!maybe_size_ || edges_.size() != maybe_size_->lines + 1) return;
    std::vector<bool> used(names_.size());
    for (std::size_t i = 1; i < edges_.size(); ++i) used[edges_[i].first] = used[edges_[i].second] = true;
    if (static_cast<std::uint64_t>(std::ranges::count(used, true)) != maybe_size_->nodes) return;
    edges_.erase(edges_.begin());
    add_note(fmt::format("line {} was taken for the size of the graph", size_line_));
  }

  void add_note(const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; }

  NamedGraph largest_component() {
    const auto all = static_cast<NodeId>(names_.size());
    DisjointSets parts(all);
    std::vector<bool> used(all);  // the size line has named some that are not there
    for (const auto& [a, b] : edges_) {
      parts.join(a, b);
      used[a] = used[b] = true;
    }
    const NodeId root = parts.largest();
    std::vector<NodeId> kept;
    for (NodeId i = 0; i < all; ++i) {
      if (parts.find(i) == root) kept.push_back(i);
    }
    const auto present = std::ranges::count(used, true);
    if (static_cast<std::size_t>(present) != kept.size()) {
      add_note(fmt::format("largest component: {} of {} nodes", kept.size(), present));
    }
    sort_numerically(kept);
    return renumbered(kept);
  }

  void sort_numerically(std::vector<NodeId>& kept) const {
    std::vector<std::pair<std::uint64_t, NodeId>> numbers;
    for (const NodeId i : kept) {
      const auto number = whole_number(names_[i]);
      if (!number) return;
      numbers.emplace_back(*number, i);
    }
    std::ranges::sort(numbers);
    std::ranges::transform(numbers, kept.begin(), [](const auto& each) { return each.second; });
  }

  NamedGraph renumbered(const std::vector<NodeId>& kept) {
    ids_ = {};
    std::vector<NodeId> new_ids(names_.size(), kNoNode);
    std::vector<std::string> names;
    for (const NodeId i : kept) {
      new_ids[i] = static_cast<NodeId>(names.size());
      names.push_back(std::move(names_[i]));
    }
    std::erase_if(edges_, [&](const auto& edge) { return new_ids[edge.first] == kNoNode; });
    for (auto& [a, b] : edges_) a = new_ids[a], b = new_ids[b];
    return {Graph(static_cast<NodeId>(kept.size()), edges_), std::move(names), std::move(note_)};
  }

  const std::string& path_;
  std::ifstream file_;
  std::uint64_t line_ = 0;
  bool matrix_market_ = false;
  std::optional<SizeLine> size_;
  std::optional<SizeLine> maybe_size_;
  std::uint64_t size_line_ = 0;
  std::unordered_map<std::string, NodeId> ids_;
  std::vector<std::string> names_;
  Edges edges_;
  std::string note_;
};

}  // namespace

NamedGraph read_graph_file(const std::string& path) { return EdgeListReader(path).read(); }

}  // namespace shoal
