#include "store/size_text.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "store/error.h"

namespace shoal {

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2, kUnits[unit]);
}

std::uint64_t parse_size(std::string_view text) {
  const auto fail = [text]() -> std::uint64_t {
    throw Error(fmt::format("'{}' is not a size; write for example 4GiB, 500MB or 1048576", text), ExitCode::kUsage);
  };
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0)) return fail();
  std::string suffix;
  for (const char* p = end; p != text.data() + text.size(); ++p) {
    if (*p != ' ') suffix += static_cast<char>(std::tolower(static_cast<unsigned char>(*p)));
  }
  double unit = 1;
  if (!suffix.empty() && suffix != "b") {
    const std::size_t power = std::string_view("kmgt").find(suffix[0]);
    const std::string_view rest = std::string_view(suffix).substr(1);
    if (power == std::string_view::npos || (rest != "b" && rest != "ib")) return fail();
    unit = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  const double bytes = std::floor(value * unit);
  if (bytes >= 9.2e18) return fail();
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace shoal
