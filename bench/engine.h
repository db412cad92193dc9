// What is measured: something that keeps a population's records and runs rounds over them.
//
// Every engine has the same semantics: a step sees the public records as they were when the round began, and what it
// writes becomes visible when the round ends. run_round() returns when the round's data has left the process: written
// with O_DIRECT, or synchronised (msync, syncfs, flush), so that no engine is timed into the page cache. What a store
// keeps in RAM by design, within its RAM number, may stay there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/operation_times.h"
#include "bench/verb.h"
#include "store/access_plan.h"
#include "store/state_layout.h"

namespace shoal::bench {

// One step with its data in memory. Null where the step's kind has none.
struct StepView {
  StepKind kind = StepKind::kRead;
  NodeId node = kNoNode;
  std::span<const NodeId> read_nodes;
  const std::byte* current = nullptr;
  std::byte* next = nullptr;
  std::byte* private_state = nullptr;
  std::span<const std::byte* const> reads;  // public payloads of read_nodes
};

// Called from several threads at a time, for different nodes. May throw: the round fails with that error.
using Work = std::function<void(const StepView&)>;

enum class OpenAs { kNew, kExisting };

struct EngineOptions {
  std::filesystem::path directory;  // the engine's own; exists
  StateLayout layout;
  NodeId nodes = 0;
  std::size_t degree = 8;
  std::uint64_t ram_bytes = 0;
  std::uint64_t warm_bytes = std::numeric_limits<std::uint64_t>::max();
  unsigned threads = 1;
  unsigned queue_depth = 0;  // 0: the store's own defaults, or else always this
  unsigned submit_batch = 32;
  std::uint64_t prefetch_bytes = 0;  // 0: the store's own default
  OpenAs open_as = OpenAs::kNew;     // kExisting: as of the last checkpoint
};

struct RoundFigures {
  // An operation is one step: from a worker's asking for its next step to that step's data being handed back. Waiting
  // for the disk is in it.
  OperationTimes operations;
  std::optional<std::uint64_t> lower_bound_bytes;
  std::optional<std::uint64_t> store_bytes;  // what the store itself says it moved
  double stalled_seconds = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // `next`, if any, is the round that will follow: for engines that can look ahead.
  virtual RoundFigures run_round(const std::shared_ptr<const AccessPlan>& round,
                                 const std::shared_ptr<const AccessPlan>& next, const Work& work) = 0;

  // The verbs between rounds, each only where supports() says so.
  virtual bool supports(Verb verb) const { return is_round(verb); }
  virtual void checkpoint();
  virtual void restore();  // opens again, as of the last checkpoint
  virtual void demote(std::span<const NodeId> nodes);
  virtual void promote(std::span<const NodeId> nodes);
  virtual void verify();  // throws Error for damage

  virtual nlohmann::json facts() const;  // settings and modes actually in use, for the report
};

std::unique_ptr<Engine> make_engine(std::string_view name, const EngineOptions& options);
// Of disk space at the worst, for workloads with or without checkpoints.
std::uint64_t disk_bytes_needed(std::string_view name, const EngineOptions& options, std::span<const Verb> verbs);
bool is_engine(std::string_view name);
bool is_shoal(std::string_view name);  // held to its RAM number
std::string engine_choices();

}  // namespace shoal::bench
