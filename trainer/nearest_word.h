// What somebody who mistyped a word may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoal {

// The word of `words`, which are not none, that fewest insertions, deletions, replacements and swaps of neighbours
// make of `typed`; the first of several.
std::string nearest_word(std::string_view typed, const std::vector<std::string>& words);

}  // namespace shoal
