// Sizes as people write them: "4GiB", "500MB", "1.5 GiB", plain bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoal {

// "512 MiB", "3.73 GiB", "100 B": three significant digits, binary units.
std::string size_text(std::uint64_t bytes);

// Accepts an integer or decimal number with an optional suffix B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB
// (powers of 1024), with or without a space, in any case. Throws a usage Error that quotes the text otherwise.
std::uint64_t parse_size(std::string_view text);

}  // namespace shoal
