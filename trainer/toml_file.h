// Settings in a TOML file: keys without tables, each with a text, a number, true or false, or a list of texts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace shoal {

struct TomlEntry {
  enum class Type { kText, kWhole, kReal, kBoolean, kTexts, kTable, kOther };
  std::string key;
  std::size_t line = 0;
  Type type = Type::kOther;
  std::string type_name;           // for messages: "a text", "a table"
  std::vector<std::string> texts;  // the value, as it would be written on a command line; of a list, each
};

// In the file's order. A usage Error, with the line, for what is no TOML.
std::vector<TomlEntry> read_toml(const std::filesystem::path& file);

// The text as a TOML value. TOML is UTF-8: not every text is possible.
std::string toml_text(const std::string& text);
bool toml_can_hold(const std::string& text);

}  // namespace shoal
