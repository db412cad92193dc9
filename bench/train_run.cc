#include "bench/train_run.h"

#include "bench/child_process.h"

namespace shoal::bench {

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

nlohmann::json train_run(const std::vector<std::string>& flags, const std::filesystem::path& folder,
                         const std::vector<std::string>& launcher) {
  std::filesystem::remove_all(folder);
  std::vector<std::string> command = launcher;
  command.push_back((this_program().parent_path() / "shoal-train").string());
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"--out", folder.string(), "--eval-nodes", "0", "--json", "--quiet"});
  nlohmann::json summary = nlohmann::json::parse(run_program(command));
  std::filesystem::remove_all(folder);
  return summary;
}

}  // namespace shoal::bench
