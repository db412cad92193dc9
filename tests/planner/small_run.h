// A run without LibTorch: small records on a ring, as the planner is told about it.
#pragma once

#include <algorithm>
#include <numeric>

#include "planner/run_plan.h"
#include "store/disk_need.h"
#include "store/memory_plan.h"

namespace shoal {

inline std::shared_ptr<const AccessPlan> ring_round(NodeId nodes) {
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < nodes; ++node) {
    const NodeId reads[] = {(node + nodes - 1) % nodes, (node + 1) % nodes};
    plan->add(StepKind::kUpdate, node, reads);
  }
  return plan;
}

constexpr std::uint64_t kProgramBytes = 1 << 20;

// RAM for the least and this share of the state.
inline RunDescription small_run(NodeId nodes, double share_of_state, std::uint64_t rounds = 10) {
  RunDescription run;
  run.model = "small";
  run.graph = "ring";
  run.algorithm = "dpsgd";
  run.optimizer = "sgd";
  run.nodes = nodes;
  run.parameters = 2000;
  run.rounds = rounds;
  run.batch = 8;
  run.threads = 2;
  run.items = {{"weights", Part::kPublic, 8000, "2000 x 4"}, {"optimizer.momentum", Part::kPrivate, 8000, "2000 x 4"}};
  run.flat_bytes = 8000;
  run.store.layout = StateLayout(
      {{"weights", DType::kFloat32, {2000}, Part::kPublic}, {"momentum", DType::kFloat32, {2000}, Part::kPrivate}});
  run.store.nodes = nodes;
  run.store.max_reads_per_step = 2;
  run.store.prefetch_bytes = 8 * run.store.layout.state_bytes();
  run.program = {{"data", kProgramBytes, "1 MiB"}};
  run.program_bytes = kProgramBytes;
  run.library_bytes = 100 << 20;
  const std::uint64_t state = nodes * run.store.layout.state_bytes();
  run.least_ram_bytes = kProgramBytes + MemoryPlan::minimum(run.store);
  run.ram_bytes = run.least_ram_bytes + static_cast<std::uint64_t>(share_of_state * static_cast<double>(state));
  run.store.ram_bytes = run.ram_bytes - kProgramBytes;
  run.resident_ram_bytes = run.least_ram_bytes + 2 * state;
  run.most_disk = most_disk(run.store, run.slot_use);
  run.order.resize(nodes);
  std::iota(run.order.begin(), run.order.end(), NodeId{0});
  run.least_sample = 32;
  run.nodes_at_most = [](NodeId most) { return most; };
  run.start = [plan = ring_round(nodes)] {
    return [plan](std::uint64_t) { return PlannedRound{plan, plan->size(), nullptr}; };
  };
  return run;
}

// As a program would describe it when asked for other nodes or RAM.
inline Describe describe_small(NodeId nodes, double share_of_state, std::uint64_t rounds = 10) {
  return [=](const RunChange& change) {
    RunDescription run = small_run(change.nodes.value_or(nodes), share_of_state, rounds);
    if (change.ram_bytes) {
      run.ram_bytes = *change.ram_bytes;
      run.store.ram_bytes = run.ram_bytes - std::min(run.ram_bytes, kProgramBytes);
    }
    return run;
  };
}

inline Machine roomy_machine() {
  Machine machine;
  machine.disk_bytes = std::uint64_t{1} << 40;
  machine.cores = 2;
  return machine;
}

inline Profile small_profile() {
  const RunDescription run = small_run(8, 1);
  Profile profile;
  profile.model = run.model;
  profile.optimizer = run.optimizer;
  profile.batch = run.batch;
  profile.public_record_bytes = run.store.layout.record_bytes(Part::kPublic);
  profile.private_record_bytes = run.store.layout.record_bytes(Part::kPrivate);
  profile.threads = 2;
  profile.step_seconds = 1e-3;
  profile.node_seconds = 1e-5;
  profile.mix_bytes_per_second = 4e9;
  profile.read_bytes_per_second = 2e9;
  profile.write_bytes_per_second = 1e9;
  profile.disk_bytes_per_second = 1.5e9;
  profile.store_cpu_seconds_per_byte = 1e-10;
  profile.mapped_bytes_per_second = 1e10;
  profile.get_bytes_per_second = 5e9;
  profile.ranks_slowdown = 1.25;
  profile.meeting_seconds = 0.5;
  profile.request_cpu_seconds = 1e-4;
  return profile;
}

}  // namespace shoal
