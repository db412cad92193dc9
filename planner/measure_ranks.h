// What it costs that a host's cores are divided between ranks, measured with two of them that train.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/train_options.h"

namespace shoal {

struct RanksCost {
  // Of compute and mix with all in RAM, against one rank with as many threads.
  double slowdown = 1;
  // That a round takes beside them, however many nodes there are: waiting for the last rank, and adding up the metrics'
  // sums over all nodes, which have the size of a model.
  double meeting_seconds = 0;
  // Of both ranks' communication threads, which poll while something is under way; 0: nothing had to be asked for.
  double request_cpu_seconds = 0;
};

// Where the time of a round goes, in the median of a run's rounds.
struct MedianRound {
  double seconds = 0;
  double worker_seconds = 0;  // of them: compute and mix
};
MedianRound median_round(const nlohmann::json& summary);

// `options` are of a run that has all in RAM and whose rounds took `alone` on one rank.
RanksCost measure_ranks(const TrainOptions& options, const MedianRound& alone, const std::filesystem::path& folder);

}  // namespace shoal
