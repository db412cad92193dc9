// What an option is, without saying where its value is kept: a name, which texts it takes, a default, a help text.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace shoal {

// What its value is in a TOML file. Texts are comma-separated on the command line.
enum class ValueKind { kWhole, kReal, kFlag, kText, kTextOrWhole, kTexts };

struct OptionForm {
  std::string name;      // --name on the command line, name in a file
  std::string standard;  // its default, as one would write it
  std::string help;
  ValueKind kind = ValueKind::kText;
  std::string type_name;  // in --help
  // The text as it is written back: equal values give equal texts. An Error that says what it must be, for others.
  std::function<std::string(const std::string&)> canonical;
  std::vector<std::string> choices = {};  // where these are all
};

// A whole number from `least` to `most`.
OptionForm whole_option(std::string name, std::uint64_t standard, std::uint64_t least, std::uint64_t most,
                        std::string help);

struct RealRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool least_itself = true;  // they belong to the range
  bool most_itself = true;
};
OptionForm real_option(std::string name, double standard, RealRange range, std::string help);

OptionForm choice_option(std::string name, std::vector<std::string> choices, std::string standard, std::string help);
OptionForm flag_option(std::string name, std::string help);
// `canonical` may be empty: any text.
OptionForm text_option(std::string name, std::string standard, std::string type_name,
                       std::function<std::string(const std::string&)> canonical, std::string help);
// Bytes: "4GiB", "500MB", 4096.
OptionForm size_option(std::string name, std::string help);

// Nothing where the text is more or less than a number.
std::optional<std::uint64_t> parse_whole(const std::string& text);
std::optional<double> parse_real(const std::string& text);
std::string real_text(double value);  // as few digits as give the same number again

}  // namespace shoal
