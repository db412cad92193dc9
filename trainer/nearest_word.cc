#include "trainer/nearest_word.h"

#include <algorithm>
#include <cstddef>

#include "store/error.h"

namespace shoal {
namespace {

// Rows of the table of distances between beginnings: one per letter of `a`.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({replaced, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows.back().back();
}

}  // namespace

std::string nearest_word(std::string_view typed, const std::vector<std::string>& words) {
  SHOAL_CHECK(!words.empty());
  return *std::ranges::min_element(words, {}, [&](const std::string& word) { return edits(typed, word); });
}

}  // namespace shoal
