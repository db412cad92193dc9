#include "planner/proposals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal {
namespace {

constexpr int kMostTries = 5;
constexpr std::uint64_t kMiB = 1 << 20;

class Trials {
 public:
  Trials(const Planner& planner, const RunPlan& plan) : planner_(planner), plan_(plan) {}

  std::vector<Proposal> run() {
    bool ram = false;
    bool disk = false;
    for (const Misfit& misfit : plan_.misfits) {
      ram |= misfit.what == "RAM";
      disk |= misfit.what == "disk";
      if (misfit.what == "device memory") for_device();
    }
    // The disk of a run without RAM enough is not known; what is proposed for its RAM has been held against it, too.
    if (ram) for_ram();
    if (disk) for_disk();
    return std::move(found_);
  }

 private:
  std::optional<RunPlan> fitting(const RunChange& change) const {
    try {
      RunPlan plan = planner_.plan(change, Effort::kQuick);
      if (plan.fits()) return plan;
    } catch (const Error& error) {
      if (error.exit_code() != ExitCode::kUsage) throw;  // a graph that cannot be, more ranks than nodes
    }
    return std::nullopt;
  }

  bool attempt(const char* words, const RunChange& change, const std::string& remark = "") {
    if (!fitting(change)) return false;
    found_.push_back({change, fmt::format("{}: {}{}", words, change.flags(), remark)});
    return true;
  }

  void for_ram() {
    RunChange more;
    more.ram_bytes = round_up(plan_.run.least_ram_bytes, kMiB);
    if (!attempt("more RAM", more)) {
      more.ram_bytes = round_up(plan_.run.resident_ram_bytes, kMiB);
      attempt("RAM for all of it, so that rounds touch no disk", more);
    }
    fewer_nodes_for_ram();
    for (const std::string& graph : plan_.run.sparser_graphs) {
      RunChange sparser;
      sparser.graph = graph;
      if (attempt("fewer neighbours, whose records a step holds at once", sparser)) break;
    }
    RunChange one_thread;
    one_thread.threads = 1;
    if (plan_.run.threads > 1) attempt("one worker", one_thread);
    other_records();
    more_ranks();
    if (found_.size() > 1) return;
    one_thread.plain_sgd = true;
    if (!plan_.run.sparser_graphs.empty()) one_thread.graph = plan_.run.sparser_graphs.back();
    attempt("all of these together", one_thread);
  }

  void for_disk() {
    RunChange in_ram;
    in_ram.ram_bytes = round_up(plan_.run.resident_ram_bytes, kMiB);
    if (plan_.run.resident_ram_bytes > plan_.run.ram_bytes) {
      attempt("RAM for all of it, so that rounds touch no disk", in_ram);
    }
    fewer_nodes_for_disk();
    cold_tier();
    RunChange no_checkpoints;
    no_checkpoints.checkpoint_every = 0;
    const bool checkpoints = plan_.run.checkpoint_every > 0;
    if (checkpoints) attempt("no checkpoints", no_checkpoints);
    other_records();
    if (checkpoints && has_slots("optimizer.") && !proposed_.plain_sgd) {
      no_checkpoints.plain_sgd = true;
      attempt("no checkpoints and an optimizer that keeps nothing", no_checkpoints);
    }
    more_ranks();
  }

  void for_device() {
    RunChange fewer;
    for (unsigned threads = plan_.run.threads / 2; threads >= 1; threads /= 2) {
      fewer.threads = threads;
      if (attempt("fewer workers", fewer)) break;
    }
    RunChange smaller;
    for (std::uint32_t batch = plan_.run.batch / 2; batch >= 1; batch /= 2) {
      smaller.batch = batch;
      if (attempt("a smaller batch", smaller)) break;
    }
  }

  bool has_slots(std::string_view prefix) const {
    return std::ranges::any_of(plan_.run.items, [&](const StateItem& item) { return item.name.starts_with(prefix); });
  }

  // Smaller ones, or one for all.
  void other_records() {
    RunChange change;
    change.plain_sgd = true;
    if (has_slots("optimizer.")) {
      proposed_.plain_sgd = attempt("an optimizer that keeps nothing", change);
    }
    change = {};
    change.algorithm = "dpsgd";
    if (has_slots("algorithm.")) attempt("an algorithm that keeps nothing of its own", change);
    change.algorithm = "allreduce";
    if (plan_.run.algorithm != "allreduce") attempt("one record for all nodes", change);
  }

  NodeId valid_nodes(double nodes) const {
    if (!plan_.run.nodes_at_most || nodes < 2) return 0;
    return plan_.run.nodes_at_most(static_cast<NodeId>(nodes));
  }

  // What the disk needs is about in proportion to the nodes, but for the steps in which files grow.
  void fewer_nodes_for_disk() {
    double share = 1;
    for (const SharedDisk& disk : plan_.disks) {
      share = std::min(share, static_cast<double>(disk.available_bytes) / static_cast<double>(disk.needed_bytes));
    }
    double nodes = 0.98 * share * plan_.run.nodes;
    for (int i = 0; i < kMostTries; ++i, nodes *= 0.8) {
      RunChange fewer;
      fewer.nodes = valid_nodes(nodes);
      if (*fewer.nodes == 0 || attempt("fewer nodes", fewer)) return;
    }
  }

  // Halves until it fits, and then goes back half of the way, if that does as well.
  void fewer_nodes_for_ram() {
    const auto fits = [&](NodeId nodes) {
      RunChange fewer;
      fewer.nodes = nodes;
      return planner_.describe(fewer).fits_ram();
    };
    NodeId nodes = valid_nodes(plan_.run.nodes / 2.0);
    for (int i = 0; i < 2 * kMostTries && nodes != 0 && !fits(nodes); ++i) nodes = valid_nodes(nodes / 2.0);
    if (nodes == 0 || !fits(nodes)) return;
    for (const double more : {1.5, 1.2}) {
      const NodeId larger = valid_nodes(nodes * more);
      if (larger > nodes && larger < plan_.run.nodes && fits(larger)) nodes = larger;
    }
    RunChange fewer;
    fewer.nodes = nodes;
    attempt("fewer nodes", fewer);
  }

  void cold_tier() {
    if (plan_.run.slot_use.in_place || plan_.run.records() < 2) return;
    // The folder of a rank has the slot table beside the slabs, and may have another rank's.
    for (const double part : {0.95, 0.8, 0.6}) {
      RunChange cold;
      double least = static_cast<double>(plan_.disk.need.store);
      for (const SharedDisk& disk : plan_.disks) {
        if (disk.fits()) continue;
        const double ranks = plan_.machine.disk_bytes ? 1 : std::max(1U, disk.folders / 2);
        least = std::min(least, static_cast<double>(disk.available_bytes) / ranks);
      }
      cold.warm_bytes = static_cast<std::uint64_t>(part * least) / kMiB * kMiB;
      if (*cold.warm_bytes == 0) return;
      const std::optional<RunPlan> plan = fitting(cold);
      if (!plan) continue;
      found_.push_back({cold, fmt::format("a cold tier on another disk: {}, with {} free there for each rank",
                                          cold.flags(), size_text(plan->disk.need.cold))});
      return;
    }
  }

  // Where each rank has a disk of its own, more of them on the same hosts do; otherwise it takes more hosts. RAM is
  // each rank's in any case, but all know the whole network, so more of them help only so far.
  void more_ranks() {
    const Machine& machine = plan_.machine;
    for (const unsigned factor : {2, 4, 8, 16}) {
      RunChange more;
      more.ranks = factor * machine.ranks;
      more.hosts = factor * machine.hosts;
      if (*more.ranks > plan_.run.nodes || plan_.run.records() < 2) return;
      if (attempt("more ranks, each host with RAM and a disk as this one", more)) return;
    }
  }

  const Planner& planner_;
  const RunPlan& plan_;
  std::vector<Proposal> found_;
  RunChange proposed_;
};

}  // namespace

std::vector<Proposal> proposals(const Planner& planner, const RunPlan& plan) { return Trials(planner, plan).run(); }

}  // namespace shoal
