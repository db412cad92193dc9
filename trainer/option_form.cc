#include "trainer/option_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal {
namespace {

template <typename Number>
std::optional<Number> number_of(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& why) { throw Error(why, ExitCode::kUsage); }

std::string range_text(const RealRange& range) {
  std::string text = "a number";
  if (std::isfinite(range.most)) {
    text += fmt::format(" from {}{} to {}{}", range.least_itself ? "" : "above ", range.least,
                        range.most_itself ? "" : "below ", range.most);
  } else {
    text += range.least_itself ? fmt::format(", at least {}", range.least) : fmt::format(" above {}", range.least);
  }
  return text;
}

}  // namespace

OptionForm whole_option(std::string name, std::uint64_t standard, std::uint64_t least, std::uint64_t most,
                        std::string help) {
  return {std::move(name),
          std::to_string(standard),
          std::move(help),
          ValueKind::kWhole,
          "N",
          [least, most](const std::string& text) {
            const auto value = parse_whole(text);
            if (!value || *value < least || *value > most) {
              const bool open = most == std::numeric_limits<std::uint64_t>::max();
              refuse(fmt::format("it must be a whole number from {} to {}", least,
                                 open ? std::string("2^64 - 1") : std::to_string(most)));
            }
            return std::to_string(*value);
          }};
}

OptionForm real_option(std::string name, double standard, RealRange range, std::string help) {
  return {
      std::move(name), real_text(standard), std::move(help), ValueKind::kReal, "X", [range](const std::string& text) {
        const auto value = parse_real(text);
        const bool above = value && (range.least_itself ? *value >= range.least : *value > range.least);
        const bool below = value && (range.most_itself ? *value <= range.most : *value < range.most);
        if (!above || !below || !std::isfinite(*value)) refuse("it must be " + range_text(range));
        return real_text(*value);
      }};
}

OptionForm choice_option(std::string name, std::vector<std::string> choices, std::string standard, std::string help) {
  auto canonical = [choices](const std::string& text) {
    if (std::ranges::find(choices, text) == choices.end()) {
      refuse(fmt::format("choose from {}", fmt::join(choices, ", ")));
    }
    return text;
  };
  return {std::move(name), std::move(standard),  std::move(help),   ValueKind::kText,
          "CHOICE",        std::move(canonical), std::move(choices)};
}

OptionForm flag_option(std::string name, std::string help) {
  return {std::move(name), "false", std::move(help), ValueKind::kFlag, "", [](const std::string& text) {
            if (text != "true" && text != "false") refuse("it must be true or false");
            return text;
          }};
}

OptionForm text_option(std::string name, std::string standard, std::string type_name,
                       std::function<std::string(const std::string&)> canonical, std::string help) {
  if (!canonical) canonical = [](const std::string& text) { return text; };
  return {std::move(name),  std::move(standard),  std::move(help),
          ValueKind::kText, std::move(type_name), std::move(canonical)};
}

OptionForm size_option(std::string name, std::string help) {
  return {std::move(name), "",
          std::move(help), ValueKind::kTextOrWhole,
          "SIZE",          [](const std::string& text) { return fmt::format("{}B", parse_size(text)); }};
}

std::optional<std::uint64_t> parse_whole(const std::string& text) { return number_of<std::uint64_t>(text); }

std::optional<double> parse_real(const std::string& text) { return number_of<double>(text); }

std::string real_text(double value) { return fmt::format("{}", value); }

}  // namespace shoal
