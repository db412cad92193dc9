#include "planner/residency.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <vector>

#include "planner/cold_moves.h"
#include "store/slot_table.h"
#include "store/store_rehearsal.h"

namespace shoal {
namespace {

// Longer runs are rehearsed this far and continued with their mean round: at least a few rounds, and where rounds
// differ because it is random who acts, a few periods; small populations, whose rounds take no time, much further.
constexpr std::uint64_t kRoundsWhereAllAct = 6;
constexpr std::uint64_t kRoundsWhereSomeAct = 24;
constexpr std::uint64_t kMostRounds = 64;
constexpr std::uint64_t kCheapSteps = 100'000;

struct Item {
  enum class Kind { kRound, kEvaluate, kInspect };
  Kind kind = Kind::kRound;
  PlannedRound planned;
};

// The run's sequence of rounds, evaluations and checkpoints, two plans ahead of the store as the trainer is.
class Rehearsal {
 public:
  explicit Rehearsal(const RunDescription& run)
      : run_(run),
        store_(run.store, [this](NodeId guest) { ++(run_.far_guests[guest] ? far_fetches_ : near_fetches_); }),
        schedule_(run.start()),
        whole_(run.rounds <= most_rounds()) {
    rounds_ = whole_ ? run.rounds : most_rounds();
  }

  Residency run() {
    const PlannedRound creation{over_all(StepKind::kCreate), 0, nullptr};
    store_.plan(creation.accesses);
    result_.total = play_round(creation);
    for (plan_ahead(); !items_.empty(); plan_ahead()) play();
    continue_run();
    const StoreReport report = store_.report();
    result_.slab_bytes = static_cast<double>(report.slab_bytes);
    for (const Part part : kParts) {
      result_.most_slots[index(part)] = static_cast<double>(report.most_slots[index(part)]);
    }
    result_.cold_bytes = static_cast<double>(report.cold_bytes);
    if (whole_) take_totals(report);
    return result_;
  }

 private:
  // Records leave RAM between rounds as well, which no round's figures have.
  void take_totals(const StoreReport& report) {
    Traffic& total = result_.total;
    const double tables = result_.checkpoints * static_cast<double>(run_.records() * sizeof(SlotEntry));
    // Without a cold tier of its own, a rehearsal's report has the records' bytes.
    total.cold_bytes_written = static_cast<double>(report.cold_bytes_written);
    const ColdMoves cold = cold_moves_at_first(run_, total.cold_bytes_written, total.cold_bytes_read,
                                               static_cast<double>(report.cold_bytes));
    total.bytes_read = static_cast<double>(report.bytes_read) + cold.bytes_read;
    total.bytes_written =
        static_cast<double>(report.bytes_written - report.cold_bytes_written) + cold.bytes_written + tables;
  }

  std::uint64_t most_rounds() const {
    const std::uint64_t least = run_.all_act ? kRoundsWhereAllAct : kRoundsWhereSomeAct;
    return std::clamp(kCheapSteps / run_.records(), least, kMostRounds);
  }

  bool evaluates(std::uint64_t round) const {
    if (run_.eval_every == 0 || run_.evaluated.empty()) return false;
    if (!whole_) return round == rounds_ / 2 + 1;  // once, with rounds around it that know nothing of it
    return (round + 1) % run_.eval_every == 0 || round + 1 == run_.rounds;
  }

  bool checkpoints(std::uint64_t round) const {
    if (run_.checkpoint_every == 0) return false;
    // At the end in any case; in a run that is cut short, once before, so that there are old versions to keep.
    if (!whole_ && run_.checkpoint_every > rounds_) return round == 1 || round + 1 == rounds_;
    return (round + 1) % run_.checkpoint_every == 0 || round + 1 == rounds_;
  }

  std::shared_ptr<const AccessPlan> over_all(StepKind kind) const {
    auto plan = std::make_shared<AccessPlan>();
    plan->reserve(run_.order.size(), 0);
    for (const NodeId node : run_.order) plan->add(kind, node);
    return plan;
  }

  // What others have in RAM they do not get again. How much that is cannot be known from here, but they are like this
  // rank: of the reads that follow one of the same record, the same share makes them get it once more, those with the
  // longest time between.
  std::vector<PeerRead> reads_by_others(const PlannedRound& round) const {
    std::vector<PeerRead> reads;
    if (!round.by_others) return reads;
    std::vector<float> gaps;
    for (const ReadByOther& read : *round.by_others) {
      if (read.gap != ReadByOther::kFirst) gaps.push_back(read.gap);
    }
    const auto again = static_cast<std::size_t>(refetched_share_ * static_cast<double>(gaps.size()));
    float shortest = ReadByOther::kFirst;
    if (again > 0) {
      std::nth_element(gaps.begin(), gaps.end() - static_cast<std::ptrdiff_t>(again), gaps.end());
      shortest = gaps[gaps.size() - again];
    }
    for (const ReadByOther& read : *round.by_others) {
      if (read.gap >= shortest) reads.push_back({read.node, read.when});
    }
    return reads;
  }

  Traffic play_round(const PlannedRound& planned) {
    const double near = near_fetches_;
    const double far = far_fetches_;
    const double served = static_cast<double>(store_.records_served());
    const RoundReport report = store_.run();
    if (run_.store.warm_bytes != std::numeric_limits<std::uint64_t>::max()) {
      const auto cold = static_cast<double>(store_.report().cold_bytes);
      result_.most_cold_bytes = std::max(result_.most_cold_bytes, cold);
    }
    Traffic traffic;
    traffic.steps = static_cast<double>(report.steps);
    traffic.local_steps = static_cast<double>(planned.local_steps);
    traffic.neighbour_reads = static_cast<double>(planned.accesses->total_reads());
    traffic.guest_reads = static_cast<double>(guest_reads(*planned.accesses, run_.store.nodes));
    traffic.near_fetches = near_fetches_ - near;
    traffic.far_fetches = far_fetches_ - far;
    traffic.served = static_cast<double>(store_.records_served()) - served;
    for (const Part part : kParts) {
      traffic.hits[index(part)] = static_cast<double>(report.hits[index(part)]);
      traffic.misses[index(part)] = static_cast<double>(report.misses[index(part)]);
    }
    traffic.cold_bytes_read = static_cast<double>(report.cold_bytes_read);
    traffic.cold_bytes_written = static_cast<double>(report.cold_bytes_written);
    const ColdMoves cold = cold_moves(run_, traffic.cold_bytes_written, traffic.cold_bytes_read);
    traffic.bytes_read = static_cast<double>(report.slab_bytes_read) + cold.bytes_read;
    traffic.bytes_written = static_cast<double>(report.slab_bytes_written) + cold.bytes_written;
    const double repeated = traffic.guest_reads - static_cast<double>(report.guests);
    if (repeated > 0) {
      refetched_share_ = std::clamp(
          (static_cast<double>(report.guest_fetches) - static_cast<double>(report.guests)) / repeated, 0., 1.);
    }
    return traffic;
  }

  void plan_ahead() {
    while (items_.size() < 2) {
      Item item;
      if (evaluate_next_) {
        item.kind = Item::Kind::kEvaluate;
        auto plan = std::make_shared<AccessPlan>();
        for (const NodeId node : run_.evaluated) plan->add(StepKind::kRead, node, std::span(&node, 1));
        item.planned.accesses = std::move(plan);
        evaluate_next_ = false;
      } else if (planned_rounds_ < rounds_) {
        item.planned = schedule_(planned_rounds_);
        evaluate_next_ = evaluates(planned_rounds_++);
      } else if (!inspection_planned_) {
        item.kind = Item::Kind::kInspect;
        item.planned.accesses = over_all(StepKind::kInspect);
        inspection_planned_ = true;
      } else {
        return;
      }
      store_.plan(item.planned.accesses, reads_by_others(item.planned));
      items_.push_back(std::move(item));
    }
  }

  void play() {
    const Item item = std::move(items_.front());
    items_.pop_front();
    const Traffic traffic = play_round(item.planned);
    result_.total += traffic;
    if (item.kind == Item::Kind::kInspect) return;
    if (item.kind == Item::Kind::kEvaluate) {
      evaluation_ += traffic;
      ++evaluations_;
    } else {
      played_.push_back(traffic);
    }
    const bool evaluation_follows = !items_.empty() && items_.front().kind == Item::Kind::kEvaluate;
    if (evaluation_follows) return;
    if (!checkpoints(played_.size() - 1)) return;
    checkpoint_bytes_.push_back(static_cast<double>(store_.checkpoint() + run_.records() * sizeof(SlotEntry)));
  }

  // From the rounds that were played to all of them.
  void continue_run() {
    result_.rounds_rehearsed = static_cast<double>(played_.size());
    add_checkpoints();
    if (played_.empty()) return;
    // A cut run's evaluation lies after its middle; the rounds before it, but for the first ones, are undisturbed.
    const std::size_t first = std::min<std::size_t>(played_.size() - 1, whole_ ? 1 : rounds_ / 3);
    const std::size_t end = whole_ ? played_.size() : rounds_ / 2 + 1;
    Traffic sum;
    for (std::size_t i = first; i < end; ++i) sum += played_[i];
    result_.round = sum * (1.0 / static_cast<double>(end - first));
    if (whole_) return;
    result_.total += result_.round * static_cast<double>(run_.rounds - rounds_);
    if (evaluations_ == 0) return;
    Traffic extra = evaluation_;
    extra += played_[end];
    extra += played_[end + 1];
    extra += result_.round * -2;
    const auto all = static_cast<double>((run_.rounds + run_.eval_every - 1) / run_.eval_every);
    result_.total += extra * (all - static_cast<double>(evaluations_));
  }

  // The first of a run that is cut short writes all that is in RAM; those after it, what has changed since.
  void add_checkpoints() {
    if (checkpoint_bytes_.empty()) return;
    const std::uint64_t every = run_.checkpoint_every;
    result_.checkpoints = static_cast<double>((run_.rounds + every - 1) / every);
    double sum = std::accumulate(checkpoint_bytes_.begin(), checkpoint_bytes_.end(), 0.0);
    sum += (result_.checkpoints - static_cast<double>(checkpoint_bytes_.size())) * checkpoint_bytes_.back();
    result_.checkpoint_bytes_written = sum / result_.checkpoints;
    result_.total.bytes_written += sum;
  }

  const RunDescription& run_;
  double near_fetches_ = 0;  // counted while a round runs, by the store's thread
  double far_fetches_ = 0;
  double refetched_share_ = 0;  // of reads that follow one of the same guest, in the last round
  StoreRehearsal store_;
  Schedule schedule_;
  bool whole_;
  std::uint64_t rounds_ = 0;
  std::deque<Item> items_;
  std::uint64_t planned_rounds_ = 0;
  bool evaluate_next_ = false;
  bool inspection_planned_ = false;
  std::vector<Traffic> played_;
  Traffic evaluation_;
  std::uint64_t evaluations_ = 0;
  std::vector<double> checkpoint_bytes_;  // of each that was made
  Residency result_;
};

}  // namespace

double Traffic::hit_rate(Part part) const {
  const double uses = hits[index(part)] + misses[index(part)];
  return uses > 0 ? hits[index(part)] / uses : 1;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  steps += other.steps;
  local_steps += other.local_steps;
  neighbour_reads += other.neighbour_reads;
  guest_reads += other.guest_reads;
  near_fetches += other.near_fetches;
  far_fetches += other.far_fetches;
  served += other.served;
  for (const Part part : kParts) {
    hits[index(part)] += other.hits[index(part)];
    misses[index(part)] += other.misses[index(part)];
  }
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  cold_bytes_read += other.cold_bytes_read;
  cold_bytes_written += other.cold_bytes_written;
  return *this;
}

Traffic Traffic::scaled(double factor, double guests_factor) const {
  Traffic result = *this;
  for (double* figure : {&result.steps, &result.local_steps, &result.neighbour_reads, &result.hits[0], &result.hits[1],
                         &result.misses[0], &result.misses[1], &result.bytes_read, &result.bytes_written,
                         &result.cold_bytes_read, &result.cold_bytes_written}) {
    *figure *= factor;
  }
  for (double* figure : {&result.guest_reads, &result.near_fetches, &result.far_fetches, &result.served}) {
    *figure *= guests_factor;
  }
  return result;
}

Residency& Residency::operator+=(const Residency& other) {
  round += other.round;
  total += other.total;
  checkpoints = std::max(checkpoints, other.checkpoints);
  checkpoint_bytes_written += other.checkpoint_bytes_written;
  rounds_rehearsed = std::max(rounds_rehearsed, other.rounds_rehearsed);
  slab_bytes += other.slab_bytes;
  for (const Part part : kParts) most_slots[index(part)] += other.most_slots[index(part)];
  cold_bytes += other.cold_bytes;
  most_cold_bytes += other.most_cold_bytes;
  return *this;
}

Residency Residency::scaled(double factor, double guests_factor) const {
  Residency result = *this;
  result.round = round.scaled(factor, guests_factor);
  result.total = total.scaled(factor, guests_factor);
  for (double* figure : {&result.checkpoint_bytes_written, &result.most_slots[0], &result.most_slots[1],
                         &result.slab_bytes, &result.cold_bytes, &result.most_cold_bytes}) {
    *figure *= factor;
  }
  return result;
}

std::uint64_t guest_reads(const AccessPlan& plan, NodeId nodes) {
  std::uint64_t count = 0;
  for (std::size_t step = 0; step < plan.size(); ++step) {
    for (const NodeId node : plan.reads(step)) count += node >= nodes ? 1 : 0;
  }
  return count;
}

Residency rehearse(const RunDescription& run) { return Rehearsal(run).run(); }

}  // namespace shoal
