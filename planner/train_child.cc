#include "planner/train_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "store/error.h"
#include "trainer/stop_signal.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// What the child makes is of no use to somebody who wants to stop: asked for the second time, it ends at once.
int wait_for(pid_t child) {
  constexpr auto kPatience = std::chrono::milliseconds(50);
  int status = 0;
  for (pid_t ended = 0; ended != child; std::this_thread::sleep_for(kPatience)) {
    ended = ::waitpid(child, &status, WNOHANG);
    if (ended == 0 && stop_requested()) ::kill(child, SIGTERM);
  }
  if (stop_requested()) throw Error("stopped; nothing is left behind");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Output goes to files: no pipe that could fill up.
int run(std::vector<std::string> arguments, const fs::path& out, const fs::path& err) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw_errno(fmt::format("starting {}", arguments[0]), error);
  return wait_for(pid);
}

// Ranks are as many as the plan says, whatever the cores, and may be root's in a container.
std::vector<std::string> launcher(unsigned ranks) {
  if (ranks == 1) return {};
  std::vector<std::string> words = {"mpirun"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.insert(words.end(), {"-np", std::to_string(ranks), "--oversubscribe", "--bind-to", "none"});
  return words;
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& parent) {
  for (fs::path path = fs::absolute(parent); !fs::exists(path) && path.has_parent_path(); path = path.parent_path()) {
    made_ = path;
  }
  fs::create_directories(parent);
  std::string name = (fs::absolute(parent) / "shoal-plan-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw_errno(fmt::format("making a folder in {}", parent.string()), errno);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (made_.empty()) return;
  // Only what is empty goes.
  for (fs::path path = path_.parent_path(); path != made_.parent_path(); path = path.parent_path()) {
    fs::remove(path, ignored);
  }
}

nlohmann::json run_ranks(unsigned ranks, const std::string& program, const std::vector<std::string>& arguments,
                         const fs::path& folder) {
  std::vector<std::string> command = launcher(ranks);
  command.push_back((fs::read_symlink("/proc/self/exe").parent_path() / program).string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  const fs::path out = folder / "out";
  const fs::path err = folder / "err";
  const int code = run(command, out, err);
  if (code != 0) throw Error(fmt::format("{} ended with {}: {}", program, code, read_text(err)));
  nlohmann::json result = nlohmann::json::parse(read_text(out));
  fs::remove(out);
  fs::remove(err);
  return result;
}

nlohmann::json run_shoal_train(TrainOptions options, const fs::path& folder, unsigned ranks) {
  options.out = folder / "run";
  options.store = folder / "store";
  options.cold.clear();
  options.resume = options.overwrite = false;
  const fs::path config = folder / "run.toml";
  std::ofstream(config) << to_toml(settings(options));
  nlohmann::json summary = run_ranks(ranks, "shoal-train", {"--config", config.string(), "--json", "--quiet"}, folder);
  summary["metrics"] = nlohmann::json::array();
  std::ifstream metrics(options.out / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) summary["metrics"].push_back(nlohmann::json::parse(line));
  for (const fs::path& path : {options.out, options.store, config}) fs::remove_all(path);
  return summary;
}

}  // namespace shoal
