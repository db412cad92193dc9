// What a checkpoint says about itself: how many rounds are done, and the settings they were computed with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "trainer/train_options.h"

namespace shoal {

struct CheckpointNote {
  std::uint64_t rounds_done = 0;
  std::map<std::string, std::string> settings;  // those that change the result

  static CheckpointNote of(std::uint64_t rounds_done, const TrainOptions& options);
  std::string text() const;
  static CheckpointNote parse(std::string_view text);
  // What config.toml says of the run in its folder: the same settings, readable before the store is opened.
  static CheckpointNote of_config(std::string_view toml, const TrainOptions& options);

  // A usage Error that names the keys, when the checkpoint was made with other settings.
  void require_same(const TrainOptions& options) const;
};

}  // namespace shoal
