// What a checkpoint says about itself: how many rounds are done, what they were computed with, and where the results
// are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "trainer/train_options.h"

namespace shoal {

struct CheckpointNote {
  std::uint64_t rounds_done = 0;
  std::map<std::string, std::string> settings;  // those that change the result
  std::map<std::string, std::string> contents;  // hashes of what settings name: content_hashes()
  std::string owners;                           // a hash of which node is which rank's; empty: this one has all
  // The results' folder: relative to the store's where that lies below it, so that both may be moved together.
  std::filesystem::path out;

  void take_settings(const TrainOptions& options);
  void set_results_folder(const std::filesystem::path& folder, const std::filesystem::path& store);
  std::filesystem::path results_folder(const std::filesystem::path& store) const;

  std::string text() const;
  static CheckpointNote parse(std::string_view text);

  // A usage Error that names what is not the same, when the checkpoint was made with other settings, or what they name
  // has changed. Rounds and the results' folder may differ.
  void require_same(const CheckpointNote& now) const;
};

}  // namespace shoal
