// The options of a program: flags of its command line and keys of its TOML file (--config), declared once. Flags win
// over the file. What is wrong is a usage Error that names the flag, or the file, line and key.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/option_form.h"

namespace shoal {

struct TomlEntry;

// A line of a configuration file.
struct Setting {
  std::string key;
  std::string value;    // TOML
  bool changes_result;  // a run cannot be resumed with another value
};
std::string to_toml(const std::vector<Setting>& settings);

class Option {
 public:
  // It means something only where the option `chooser` has one of the values that this was called with.
  Option& only_for(std::string chooser, std::string value);
  Option& in_group(std::string heading);  // of --help
  Option& changes_result(bool changes);   // see Setting
  Option& command_line_only();            // belongs to one call: not for files

 private:
  friend class OptionSet;
  enum class Given { kNot, kInFile, kByFlag };
  OptionForm form_;
  std::function<void(const std::string&)> set_;
  std::function<std::string()> get_;
  std::string group_;
  std::string chooser_;
  std::vector<std::string> chosen_;
  bool changes_result_ = false;
  bool in_file_ = true;
  Given given_ = Given::kNot;
  std::string where_;  // it was given: "--nodes 8", "run.toml, line 3: nodes = 8"
};

class OptionSet {
 public:
  // The next ones' group in --help, and whether they are settings that change the result.
  void section(std::string heading, bool changes_result);

  // `set` gets canonical texts, `get` gives them; an empty one is no value, and the help text says what is done then.
  Option& add(OptionForm form, std::function<void(const std::string&)> set, std::function<std::string()> get);

  // With a variable that has the default, and gets the value. It outlives the set.
  template <std::unsigned_integral Number>
  Option& whole(const std::string& name, Number& target, const std::string& help, std::uint64_t least = 0,
                std::uint64_t most = std::numeric_limits<Number>::max()) {
    return add(
        whole_option(name, target, least, most, help),
        [&target](const std::string& text) { target = static_cast<Number>(*parse_whole(text)); },
        [&target, least] { return target < least ? std::string() : std::to_string(target); });
  }
  template <typename Value>
  Option& choice(const std::string& name, Value& target, const std::vector<std::pair<std::string, Value>>& values,
                 const std::string& help) {
    using Named = std::pair<std::string, Value>;
    const auto name_now = [&target, values] { return std::ranges::find(values, target, &Named::second)->first; };
    std::vector<std::string> names;
    for (const auto& [each, value] : values) names.push_back(each);
    return add(
        choice_option(name, names, name_now(), help),
        [&target, values](const std::string& text) { target = std::ranges::find(values, text, &Named::first)->second; },
        name_now);
  }
  Option& choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                 const std::string& help);
  Option& real(const std::string& name, double& target, RealRange range, const std::string& help);
  Option& flag(const std::string& name, bool& target, const std::string& help);
  // `canonical` as in OptionForm; empty: any text.
  Option& text(const std::string& name, std::string& target, const std::string& help,
               std::function<std::string(const std::string&)> canonical = {});
  Option& path(const std::string& name, std::filesystem::path& target, const std::string& help);
  // `none` is no value.
  Option& size(const std::string& name, std::uint64_t& target, std::uint64_t none, const std::string& help);

  struct Program {
    std::string name;
    std::string version;
    std::string description;
    std::string footer;
  };
  // A text when that is all that was asked for: --help, --version.
  std::optional<std::string> parse(const Program& program, int argc, const char* const* argv);
  bool given(const std::string& name) const;  // by a flag or in the file
  bool print_config() const { return print_config_; }

  // Of all options that have a value and mean something now, in the order of their declaration.
  std::vector<Setting> settings() const;

 private:
  const Option* find(const std::string& name) const;
  bool applies(const Option& option) const;
  void take(Option& option, const std::string& text, Option::Given given, std::string where);
  void take_from_file(const std::string& file, const TomlEntry& entry);
  void require_that_all_apply() const;
  std::string nearest(const std::string& name) const;

  std::list<Option> options_;  // a list, because their addresses are given out
  std::string group_;
  bool section_changes_result_ = false;
  std::filesystem::path config_;
  bool print_config_ = false;
};

}  // namespace shoal
