// What it costs that a host's cores are divided between ranks, measured with two of them that train.
#pragma once

#include <filesystem>

#include "trainer/train_options.h"

namespace shoal {

struct RanksCost {
  // Of a round all in RAM, against one rank with as many threads. The ranks wait for each other at its end, none takes
  // over the other's nodes, and their frames lie in shared memory, which has small pages.
  double slowdown = 1;
  // Of both ranks' communication threads, which poll while something is under way; 0: nothing had to be asked for.
  double request_cpu_seconds = 0;
};

// `options` are of a run that has all in RAM and whose rounds took `seconds` on one rank.
RanksCost measure_ranks(const TrainOptions& options, double seconds, const std::filesystem::path& folder);

}  // namespace shoal
