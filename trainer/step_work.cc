#include "trainer/step_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "store/error.h"

namespace shoal {
namespace {

// Of one node's inputs while it mixes; a hub with more of them has the others checked before.
constexpr std::size_t kMostChecks = 64;

}  // namespace

CreateWork::CreateWork(const Model& model, const NodeLayout& layout, const Share& share, std::uint64_t seed,
                       const std::vector<std::byte>* same, Population& population, Progress& progress)
    : model_(model),
      layout_(layout),
      share_(share),
      seed_(seed),
      same_(same),
      population_(population),
      progress_(progress) {}

void CreateWork::compute(NodeLease& lease, unsigned) {
  if (same_ != nullptr) {
    std::memcpy(lease.next(), same_->data(), same_->size());
  } else {
    std::memset(lease.next(), 0, layout_.state().payload_bytes(Part::kPublic));
    model_.initialize(seed_, share_.global(lease.node()), layout_.parameters(lease.next()),
                      layout_.buffers(lease.next()));
  }
  population_.add(layout_.parameters(lease.next()));
  progress_.step_done();
}

MoveWork::MoveWork(const NodeLayout& layout, const Share& share, const Share& before,
                   const std::vector<StoreOptions>& former, Progress& progress)
    : layout_(layout), share_(share), before_(before), former_(former), progress_(progress), sources_(former.size()) {}

void MoveWork::compute(NodeLease& lease, unsigned) {
  const NodeId node = share_.global(lease.node());
  const unsigned rank = before_.owner(node);
  const NodeId there = before_.number_at_owner(node);
  Source& source = sources_[rank];
  {
    const std::scoped_lock lock(source.mutex);
    if (!source.reader) {
      source.reader = std::make_unique<CheckpointReader>(former_[rank]);
      if (const auto difference = source.reader->layout().difference(layout_.state())) {
        throw Error(fmt::format("{} has records of another kind: {}", former_[rank].directory.string(), *difference));
      }
    }
    source.reader->read(there, Part::kPublic, lease.next());
    source.reader->read(there, Part::kPrivate, lease.private_state());
    lease.set_version(source.reader->version(there));
  }
  progress_.step_done();
}

double RoundFigures::loss() const {
  return trained > 0 ? loss_sum.value() / static_cast<double>(trained) : std::numeric_limits<double>::quiet_NaN();
}

TrainWork::TrainWork(const Algorithm& algorithm, const NodeLayout& layout, const Share& share,
                     const std::vector<std::unique_ptr<Worker>>& workers, Population& population, std::uint32_t places,
                     double slowness)
    : algorithm_(algorithm),
      layout_(layout),
      share_(share),
      workers_(workers),
      population_(population),
      slowness_(slowness),
      rule_keeps_state_(!algorithm.slots().empty() || !algorithm.scalars().empty()),
      desks_(places),
      checks_(workers.size()),
      figures_(workers.size()) {
  for (std::vector<RecordCheck>& checks : checks_) checks.resize(std::min(1 + algorithm.max_reads(), kMostChecks));
}

void TrainWork::begin(std::uint64_t round, const RoundPlan& plan, double learning_rate, unsigned local_steps) {
  round_ = round;
  plan_ = &plan;
  learning_rate_ = learning_rate;
  local_steps_ = local_steps;
  for (WorkerFigures& figures : figures_) figures = {};
  if (algorithm_.all_act()) population_.clear();
}

void TrainWork::lay_out(NodeLease& lease, Desk& desk, std::span<RecordCheck> checks) const {
  desk.inputs.clear();
  desk.input_buffers.clear();
  for (std::size_t k = 0; k < lease.inputs(); ++k) {
    const std::byte* const record = k < checks.size() ? lease.input(k, checks[k]) : lease.read(k - 1);
    desk.inputs.push_back(layout_.parameters(record));
    desk.input_buffers.push_back(layout_.buffers(record));
  }
  desk.weights.resize(desk.inputs.size());
  // Checked now where mix() may change it, else when the optimizer needs it.
  std::byte* const own = rule_keeps_state_ ? lease.private_state() : lease.private_state(desk.private_check);
  const std::size_t slots = layout_.optimizer_slots() + layout_.algorithm_slots();
  desk.slots.clear();
  for (std::size_t k = 0; k < slots; ++k) desk.slots.push_back(layout_.slot(own, k));

  NodeStep& step = desk.step;
  step = {};
  step.node = share_.global(lease.node());
  step.round = round_;
  step.local_steps = plan_->local_steps.empty() ? local_steps_ : plan_->local_steps[lease.step()];
  step.learning_rate = learning_rate_;
  step.layout = &layout_;
  step.inputs = desk.inputs;
  step.input_buffers = desk.input_buffers;
  step.next = layout_.parameters(lease.next());
  step.next_buffers = layout_.buffers(lease.next());
  step.optimizer_slots = std::span(desk.slots).first(layout_.optimizer_slots());
  step.algorithm_slots = std::span(desk.slots).subspan(layout_.optimizer_slots());
  step.scalars = layout_.scalars(own);
  step.private_check = &desk.private_check;
  step.weights = desk.weights;
  step.checks = checks.first(std::min(checks.size(), lease.inputs()));
}

void TrainWork::mix(NodeLease& lease, unsigned worker) {
  Desk& desk = desks_[lease.place()];
  std::vector<RecordCheck>& checks = checks_[worker];
  lay_out(lease, desk, checks);
  algorithm_.mix(desk.step);
  for (std::size_t k = 0; k < desk.step.checks.size(); ++k) lease.finish_input(k, checks[k]);
  desk.step.checks = {};
}

void TrainWork::compute(NodeLease& lease, unsigned worker) {
  Desk& desk = desks_[lease.place()];
  NodeStep& step = desk.step;
  const Clock::time_point begin = Clock::now();
  algorithm_.train(step, *workers_[worker]);
  lease.finish_writing(desk.private_check);
  if (slowness_ > 1) std::this_thread::sleep_for((slowness_ - 1) * (Clock::now() - begin));
  if (!algorithm_.all_act()) population_.remove(step.current());
  population_.add(step.next);
  WorkerFigures& figures = figures_[worker];
  if (step.trained) {
    figures.loss.add(step.loss);
    ++figures.trained;
  }
  if (!step.warning.empty()) figures.warning = step.warning;
}

RoundFigures TrainWork::figures() {
  RoundFigures figures;
  for (const WorkerFigures& each : figures_) {
    figures.loss_sum.add(each.loss);
    figures.trained += each.trained;
    if (!each.warning.empty()) figures.warning = each.warning;
  }
  for (const std::unique_ptr<Worker>& worker : workers_) figures.node_steps += worker->take_count();
  return figures;
}

EvaluateWork::EvaluateWork(const NodeLayout& layout, const std::vector<std::unique_ptr<Worker>>& workers,
                           const Sampler* sampler, std::uint32_t samples)
    : layout_(layout), workers_(workers), sampler_(sampler), samples_(samples) {}

void EvaluateWork::begin(std::size_t models) {
  scores_.assign(models, {});
  buffers_.assign(models, {});
}

Score EvaluateWork::score(Worker& worker, const float* parameters, const std::byte* buffers) const {
  constexpr std::uint32_t kBatch = 64;
  Score total;
  double loss = 0;
  if (sampler_ == nullptr) return total;
  const std::uint32_t samples = std::min(samples_, sampler_->test_size());
  for (std::uint32_t first = 0; first < samples; first += kBatch) {
    sampler_->test_batch(first, std::min(kBatch, samples - first), worker.batch());
    const Score part = worker.learner().score(worker.batch(), parameters, buffers);
    total.samples += part.samples;
    total.correct += part.correct;
    loss += part.loss * static_cast<double>(part.samples);
  }
  total.loss = loss / static_cast<double>(std::max<std::uint64_t>(1, total.samples));
  return total;
}

void EvaluateWork::compute(NodeLease& lease, unsigned worker) {
  const std::byte* const record = lease.read(0);
  scores_[lease.step()] = score(*workers_[worker], layout_.parameters(record), layout_.buffers(record));
  buffers_[lease.step()].assign(layout_.buffers(record), layout_.buffers(record) + layout_.buffers_bytes());
}

std::vector<std::byte> EvaluateWork::pack(const std::vector<std::uint32_t>& numbers) const {
  std::vector<std::byte> packed;
  const auto add = [&](const void* from, std::size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    packed.insert(packed.end(), begin, begin + bytes);
  };
  for (std::size_t step = 0; step < scores_.size(); ++step) {
    add(&numbers[step], sizeof(numbers[step]));
    add(&scores_[step], sizeof(scores_[step]));
    add(buffers_[step].data(), buffers_[step].size());
  }
  return packed;
}

void EvaluateWork::unpack(const std::vector<std::vector<std::byte>>& packed, std::size_t models) {
  begin(models);
  for (const std::vector<std::byte>& part : packed) {
    for (std::size_t at = 0; at < part.size();) {
      std::uint32_t number = 0;
      std::memcpy(&number, part.data() + at, sizeof(number));
      at += sizeof(number);
      std::memcpy(&scores_[number], part.data() + at, sizeof(Score));
      at += sizeof(Score);
      const auto* const buffers = part.data() + at;
      buffers_[number].assign(buffers, buffers + layout_.buffers_bytes());
      at += layout_.buffers_bytes();
    }
  }
}

std::vector<std::byte> EvaluateWork::mean_buffers() const {
  if (buffers_.empty()) return std::vector<std::byte>(layout_.buffers_bytes());
  std::vector<std::byte> mean = buffers_.front();
  for (const TensorPlace& place : layout_.buffers()) {
    if (place.spec.dtype != DType::kFloat32) continue;
    const std::uint64_t offset = place.offset - layout_.buffers().front().offset;
    auto* const out = reinterpret_cast<float*>(mean.data() + offset);
    for (std::size_t i = 0; i < place.bytes / sizeof(float); ++i) {
      double sum = 0;
      for (const auto& each : buffers_) sum += reinterpret_cast<const float*>(each.data() + offset)[i];
      out[i] = static_cast<float>(sum / static_cast<double>(buffers_.size()));
    }
  }
  return mean;
}

InspectWork::InspectWork(const NodeLayout& layout, const Share& share, unsigned threads, Population* population)
    : layout_(layout), share_(share), hashes_(threads), lines_(share.nodes()), population_(population) {}

void InspectWork::compute(NodeLease& lease, unsigned worker) {
  hashes_[worker].hash.add(share_.global(lease.node()), layout_.state(), lease.current(), lease.private_state());
  const NodeScalars& scalars = *layout_.scalars(lease.private_state());
  lines_[lease.node()] = {scalars.last_loss, scalars.steps, lease.version()};
  if (population_ != nullptr) population_->add(layout_.parameters(lease.current()));
}

StateHash InspectWork::hash() const {
  StateHash total;
  for (const WorkerHash& each : hashes_) total.add(each.hash);
  return total;
}

}  // namespace shoal
