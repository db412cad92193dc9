// Programs in processes of their own: for --verify and calibrate.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/train_options.h"

namespace shoal {

// Runs the program beside this one with exactly these options, in `folder`, which must be new and is left empty of what
// the run made; of several ranks, by mpirun. Its summary, with the rounds' lines as "metrics". Error with what it
// printed when it fails.
nlohmann::json run_shoal_train(TrainOptions options, const std::filesystem::path& folder, unsigned ranks = 1);

// Runs a program beside this one, of several ranks by mpirun; `folder` is for its output, which must be JSON and
// nothing else. Error with what it printed when it fails.
nlohmann::json run_ranks(unsigned ranks, const std::string& program, const std::vector<std::string>& arguments,
                         const std::filesystem::path& folder);

// A folder that is there as long as this is.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::filesystem::path& parent);  // is made if it is not there, and then goes as well
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path made_;  // the outermost folder that was not there; empty: none
};

}  // namespace shoal
