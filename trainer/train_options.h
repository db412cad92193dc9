// shoal-train's flags. Flags and TOML keys have the same names; the defaults are good ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/device_choice.h"
#include "store/types.h"
#include "trainer/optimizer.h"
#include "trainer/option_set.h"
#include "trainer/sampler.h"

namespace shoal {

enum class InitialModels { kSame, kIndependent };

enum class Pace { kRounds, kFree };
enum class NeighbourPath { kAuto, kOneSided };

struct SlowRank {  // "2:10x"
  unsigned rank = 0;
  double factor = 1;
};

struct TrainOptions {
  // What is computed.
  NodeId nodes = 64;  // 0: as many as the graph's file has
  std::uint64_t rounds = 20;
  std::uint64_t seed = 1;
  std::string graph = "random-regular:8";
  std::string model = "lenet5";
  InitialModels init = InitialModels::kSame;
  std::string data = "synthetic-mnist";
  std::string partition = "iid";
  std::uint32_t batch = 64;
  Augmentation augment = Augmentation::kNone;
  std::string algorithm = "dpsgd";
  std::map<std::string, std::string> algorithm_options;  // its own, by name: those that are not left at their default
  unsigned local_steps = 1;
  OptimizerOptions optimizer;
  double learning_rate = 0.05;
  std::string lr_schedule = "constant";
  std::uint64_t warmup_rounds = 0;

  // Where and with what.
  std::filesystem::path out = "shoal-run";
  std::filesystem::path store;  // after parsing: never empty; both with {rank} {local_rank} {host} in them, if given
  std::filesystem::path cold;
  IoEngine store_io = IoEngine::kAuto;
  std::uint64_t warm_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t ram_bytes = 0;
  unsigned threads = 0;  // after parsing: never 0
  unsigned intra_op = 1;
  std::string device = "cpu";

  // Several ranks.
  Pace pace = Pace::kRounds;
  std::uint64_t max_lag = 4;
  SlowRank slow_rank;
  NeighbourPath neighbour_path = NeighbourPath::kAuto;
  std::filesystem::path log_dir;

  // How it is watched and kept.
  std::uint64_t checkpoint_every = 0;
  bool resume = false;
  bool overwrite = false;
  std::uint64_t eval_every = 0;  // after parsing: never 0
  NodeId eval_nodes = 8;
  std::uint32_t eval_samples = 1000;
  bool trace = false;
  bool strict = false;
  bool quiet = false;
  bool json = false;
  bool dry_run = false;
};

// Every setting as it is written to config.toml, in order.
std::vector<Setting> settings(const TrainOptions& options);

struct TrainCommand {
  TrainOptions options;
  std::optional<std::string> print;  // --help, --version, --print-config: print this and do nothing else
};

// Ranks that share this host's RAM, and this process's cores, and all of the run; itself included.
struct RanksHere {
  unsigned in_ram = 1;
  unsigned on_cores = 1;
  unsigned in_all = 1;
};

// Throws a usage Error for anything that is not understood or cannot work whatever the files contain. What is not given
// and depends on the machine is divided by the ranks on this host.
TrainCommand parse_train_command(int argc, const char* const* argv, RanksHere ranks_here = {});

}  // namespace shoal
