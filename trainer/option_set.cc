#include "trainer/option_set.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "store/error.h"
#include "store/size_text.h"
#include "trainer/nearest_word.h"
#include "trainer/toml_file.h"

namespace shoal {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(message, ExitCode::kUsage); }

std::string joined(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ",")); }

// TOML's whole numbers end there; larger ones are written as texts.
bool too_large_for_toml(const std::string& text) {
  return parse_whole(text).value_or(0) > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

std::string toml_value(ValueKind kind, const std::string& text) {
  switch (kind) {
    case ValueKind::kWhole: return too_large_for_toml(text) ? toml_text(text) : text;
    case ValueKind::kReal:
    case ValueKind::kFlag: return text;
    case ValueKind::kText:
    case ValueKind::kTextOrWhole: return toml_text(text);
    case ValueKind::kTexts: break;
  }
  std::string list;
  for (const std::string& each : CLI::detail::split(text, ',')) list += (list.empty() ? "" : ", ") + toml_text(each);
  return "[" + list + "]";
}

const char* expected(ValueKind kind) {
  switch (kind) {
    case ValueKind::kWhole: return "a whole number";
    case ValueKind::kReal: return "a number";
    case ValueKind::kFlag: return "true or false";
    case ValueKind::kText: return "a text";
    case ValueKind::kTextOrWhole: return "a text or a whole number";
    case ValueKind::kTexts: break;
  }
  return "a list of texts";
}

bool fits(const TomlEntry& entry, ValueKind kind) {
  using Type = TomlEntry::Type;
  switch (kind) {
    case ValueKind::kWhole:
      return entry.type == Type::kWhole || (entry.type == Type::kText && too_large_for_toml(entry.texts.front()));
    case ValueKind::kReal: return entry.type == Type::kReal || entry.type == Type::kWhole;
    case ValueKind::kFlag: return entry.type == Type::kBoolean;
    case ValueKind::kText: return entry.type == Type::kText;
    case ValueKind::kTextOrWhole: return entry.type == Type::kText || entry.type == Type::kWhole;
    case ValueKind::kTexts: break;
  }
  return entry.type == Type::kText || entry.type == Type::kTexts;
}

}  // namespace

std::string to_toml(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) text += fmt::format("{} = {}\n", setting.key, setting.value);
  return text;
}

Option& Option::only_for(std::string chooser, std::string value) {
  SHOAL_CHECK(chooser_.empty() || chooser_ == chooser);
  chooser_ = std::move(chooser);
  chosen_.push_back(std::move(value));
  return *this;
}

Option& Option::in_group(std::string heading) {
  group_ = std::move(heading);
  return *this;
}

Option& Option::changes_result(bool changes) {
  changes_result_ = changes;
  return *this;
}

Option& Option::command_line_only() {
  in_file_ = false;
  return *this;
}

void OptionSet::section(std::string heading, bool changes_result) {
  group_ = std::move(heading);
  section_changes_result_ = changes_result;
}

Option& OptionSet::add(OptionForm form, std::function<void(const std::string&)> set, std::function<std::string()> get) {
  SHOAL_CHECK(find(form.name) == nullptr);
  Option& option = options_.emplace_back();
  option.form_ = std::move(form);
  option.set_ = std::move(set);
  option.get_ = std::move(get);
  option.form_.standard = option.get_();
  option.group_ = group_;
  option.changes_result_ = section_changes_result_;
  return option;
}

Option& OptionSet::choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                          const std::string& help) {
  return add(
      choice_option(name, choices, target, help), [&target](const std::string& text) { target = text; },
      [&target] { return target; });
}

Option& OptionSet::real(const std::string& name, double& target, RealRange range, const std::string& help) {
  return add(
      real_option(name, target, range, help), [&target](const std::string& text) { target = *parse_real(text); },
      [&target] { return real_text(target); });
}

Option& OptionSet::flag(const std::string& name, bool& target, const std::string& help) {
  return add(
      flag_option(name, help), [&target](const std::string& text) { target = text == "true"; },
      [&target] { return std::string(target ? "true" : "false"); });
}

Option& OptionSet::text(const std::string& name, std::string& target, const std::string& help,
                        std::function<std::string(const std::string&)> canonical) {
  return add(
      text_option(name, target, "TEXT", std::move(canonical), help),
      [&target](const std::string& text) { target = text; }, [&target] { return target; });
}

Option& OptionSet::path(const std::string& name, std::filesystem::path& target, const std::string& help) {
  return add(
      text_option(name, target.string(), "PATH", {}, help), [&target](const std::string& text) { target = text; },
      [&target] { return target.string(); });
}

Option& OptionSet::size(const std::string& name, std::uint64_t& target, std::uint64_t none, const std::string& help) {
  return add(
      size_option(name, help), [&target](const std::string& text) { target = parse_size(text); },
      [&target, none] { return target == none ? std::string() : fmt::format("{}B", target); });
}

const Option* OptionSet::find(const std::string& name) const {
  const auto found = std::ranges::find_if(options_, [&](const Option& each) { return each.form_.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

bool OptionSet::given(const std::string& name) const { return find(name)->given_ != Option::Given::kNot; }

bool OptionSet::applies(const Option& option) const {
  if (option.chooser_.empty()) return true;
  return std::ranges::find(option.chosen_, find(option.chooser_)->get_()) != option.chosen_.end();
}

std::vector<Setting> OptionSet::settings() const {
  std::vector<Setting> list;
  for (const Option& option : options_) {
    const std::string text = option.get_();
    if (!option.in_file_ || text.empty() || !applies(option)) continue;
    list.push_back({option.form_.name, toml_value(option.form_.kind, text), option.changes_result_});
  }
  return list;
}

std::string OptionSet::nearest(const std::string& name) const {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(option.form_.name);
  return nearest_word(name, names);
}

void OptionSet::take(Option& option, const std::string& text, Option::Given given, std::string where) {
  option.given_ = given;
  option.where_ = std::move(where);
  if (!toml_can_hold(text)) refuse(option.where_ + ": it must be UTF-8, or no configuration file could hold it");
  try {
    option.set_(option.form_.canonical(text));
  } catch (const Error& error) {
    refuse(fmt::format("{}: {}", option.where_, error.what()));
  }
}

void OptionSet::take_from_file(const std::string& file, const TomlEntry& entry) {
  const std::string line = fmt::format("{}, line {}: ", file, entry.line);
  const auto found = std::ranges::find_if(options_, [&](const Option& each) { return each.form_.name == entry.key; });
  if (entry.type == TomlEntry::Type::kTable) {
    refuse(fmt::format("{}{} is a table; settings are written without, as nodes = 64", line, entry.key));
  }
  if (found == options_.end()) {
    refuse(fmt::format("{}there is no setting {}; the nearest is {}", line, entry.key, nearest(entry.key)));
  }
  if (!found->in_file_) refuse(fmt::format("{}{} belongs to one call; give it as --{}", line, entry.key, entry.key));
  const ValueKind kind = found->form_.kind;
  if (!fits(entry, kind)) {
    refuse(fmt::format("{}{} is {}; it must be {}", line, entry.key, entry.type_name, expected(kind)));
  }
  const std::string text = joined(entry.texts);
  take(*found, text, Option::Given::kInFile, fmt::format("{}{} = {}", line, entry.key, text));
}

// What would be ignored is refused. A file may repeat a default: a run's own config.toml has all that it was run with,
// and stays of use with another algorithm.
void OptionSet::require_that_all_apply() const {
  for (const Option& option : options_) {
    if (option.given_ == Option::Given::kNot || applies(option)) continue;
    if (option.given_ == Option::Given::kInFile && option.get_() == option.form_.standard) continue;
    refuse(fmt::format("{}: it is for --{} {}, and this run's is {}", option.where_, option.chooser_,
                       fmt::join(option.chosen_, " or "), find(option.chooser_)->get_()));
  }
}

std::optional<std::string> OptionSet::parse(const Program& program, int argc, const char* const* argv) {
  section("", false);
  path("config", config_, "Read settings from a TOML file; flags on the command line win").command_line_only();
  flag("print-config", print_config_, "Print the configuration as TOML and exit").command_line_only();

  CLI::App app(program.description, program.name);
  app.footer(program.footer);
  app.set_version_flag("--version", program.version);
  app.allow_extras();
  std::vector<std::pair<Option*, CLI::Option*>> flags;
  for (Option& option : options_) {
    const OptionForm& form = option.form_;
    const bool is_flag = form.kind == ValueKind::kFlag;
    CLI::Option* const flag = is_flag ? app.add_flag("--" + form.name) : app.add_option("--" + form.name);
    flag->description(form.help)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (!option.group_.empty()) flag->group(option.group_);
    if (!is_flag) flag->type_name(form.type_name)->default_str(option.get_());
    flags.emplace_back(&option, flag);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion&) {
    return fmt::format("{} {}\n", program.name, program.version);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // "--nodes: ..."
    refuse(message.substr(0, message.find(':')) + " lacks its value");
  } catch (const CLI::ParseError& error) {
    refuse(fmt::format("{} (--help explains)", error.what()));
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty()) {
    const std::string& extra = extras.front();
    if (!extra.starts_with("--")) refuse(fmt::format("'{}' is no flag: flags begin with --", extra));
    refuse(fmt::format("there is no flag {}; the nearest is --{} (--help lists all)", extra,
                       nearest(extra.substr(2, extra.find('=') - 2))));
  }
  const auto take_flag = [&](Option& option, const CLI::Option& flag) {
    const std::vector<std::string>& results = flag.results();
    if (results.empty()) return;
    const std::string& name = option.form_.name;
    if (results.size() > 1) refuse(fmt::format("--{} is given {} times; give it once", name, results.size()));
    const bool bare = option.form_.kind == ValueKind::kFlag && results.front() == "true";
    take(option, results.front(), Option::Given::kByFlag,
         bare ? "--" + name : fmt::format("--{} {}", name, results.front()));
  };
  for (const auto& [option, flag] : flags) {
    if (option->form_.name == "config") take_flag(*option, *flag);
  }
  if (!config_.empty()) {
    for (const TomlEntry& entry : read_toml(config_)) take_from_file(config_.string(), entry);
  }
  for (const auto& [option, flag] : flags) take_flag(*option, *flag);
  require_that_all_apply();
  return std::nullopt;
}

}  // namespace shoal
