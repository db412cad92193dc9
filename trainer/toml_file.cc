#include "trainer/toml_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "store/error.h"

namespace shoal {
namespace {

using Type = TomlEntry::Type;

const char* name_of(toml::node_type type) {
  switch (type) {
    case toml::node_type::string: return "a text";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    case toml::node_type::array: return "a list";
    case toml::node_type::table: return "a table";
    default: return "a date or time";
  }
}

TomlEntry entry_of(std::string key, const toml::node& node) {
  TomlEntry entry{std::move(key), node.source().begin.line, Type::kOther, name_of(node.type()), {}};
  const auto is = [&](Type type, std::string text) {
    entry.type = type;
    entry.texts = {std::move(text)};
  };
  if (node.is_table()) entry.type = Type::kTable;
  if (const auto* text = node.as_string()) is(Type::kText, text->get());
  if (const auto* number = node.as_integer()) is(Type::kWhole, fmt::format("{}", number->get()));
  if (const auto* number = node.as_floating_point()) is(Type::kReal, fmt::format("{}", number->get()));
  if (const auto* boolean = node.as_boolean()) is(Type::kBoolean, boolean->get() ? "true" : "false");
  if (const auto* list = node.as_array(); list != nullptr && list->is_homogeneous<std::string>()) {
    entry.type = Type::kTexts;
    for (const toml::node& each : *list) entry.texts.push_back(each.as_string()->get());
  }
  return entry;
}

}  // namespace

std::vector<TomlEntry> read_toml(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const int error_number = std::filesystem::is_directory(file) ? EISDIR : in ? 0 : errno;
  if (error_number != 0) throw Error(fmt::format("{}: {}", file.string(), errno_text(error_number)), ExitCode::kUsage);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<TomlEntry> entries;
  try {
    const toml::table table = toml::parse(text);
    for (const auto& [key, node] : table) entries.push_back(entry_of(std::string(key.str()), node));
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}, line {}: {}", file.string(), error.source().begin.line, error.description()),
                ExitCode::kUsage);
  }
  std::ranges::stable_sort(entries, {}, &TomlEntry::line);  // a table's keys are sorted by name
  return entries;
}

std::string toml_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if ((c >= 0 && c < 0x20) || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool toml_can_hold(const std::string& text) {
  try {
    return toml::parse("text = " + toml_text(text))["text"].value<std::string>() == text;
  } catch (const toml::parse_error&) {
    return false;
  }
}

}  // namespace shoal
