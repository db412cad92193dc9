#include "store/state_store.h"

#include <fmt/format.h>

#include <utility>

#include "store/checkpoint_reader.h"
#include "store/error.h"
#include "store/memory_plan.h"
#include "store/store_engine.h"

namespace shoal {

NodeLease::NodeLease(NodeLease&& other) noexcept
    : engine_(other.engine_), flight_(std::exchange(other.flight_, nullptr)) {}

NodeLease& NodeLease::operator=(NodeLease&& other) noexcept {
  if (this != &other) {
    if (flight_ != nullptr) engine_->give_back(flight_, false);
    engine_ = other.engine_;
    flight_ = std::exchange(other.flight_, nullptr);
  }
  return *this;
}

NodeLease::~NodeLease() {
  if (flight_ != nullptr) engine_->give_back(flight_, false);
}

std::size_t NodeLease::step() const { return flight_->step; }
StepKind NodeLease::kind() const { return flight_->kind; }
NodeId NodeLease::node() const { return flight_->node; }
Version NodeLease::version() const { return flight_->version; }
std::uint32_t NodeLease::place() const { return flight_->index; }
const std::byte* NodeLease::current() const { return flight_->own_payload; }
std::byte* NodeLease::next() const { return flight_->next_payload; }
std::byte* NodeLease::private_state() const { return flight_->private_payload; }
std::size_t NodeLease::reads() const { return flight_->read_payloads.size(); }
const std::byte* NodeLease::read(std::size_t k) const { return flight_->read_payloads[k]; }

void NodeLease::set_version(Version version) {
  if (flight_->kind != StepKind::kCreate || version == 0) {
    throw Error(fmt::format("node {} cannot be given version {}: only a state that is being created can, and from 1 on",
                            flight_->node, version),
                ExitCode::kUsage);
  }
  flight_->next_version = version;
}

void NodeLease::commit() {
  SHOAL_CHECK(flight_ != nullptr);
  engine_->give_back(std::exchange(flight_, nullptr), true);
}

StateStore::StateStore(std::unique_ptr<StoreEngine> engine) : engine_(std::move(engine)) {}
StateStore::~StateStore() = default;

std::unique_ptr<StateStore> StateStore::create(const StoreOptions& options) {
  return std::unique_ptr<StateStore>(
      new StateStore(std::make_unique<StoreEngine>(options, StoreEngine::Start::kCreate)));
}

std::unique_ptr<StateStore> StateStore::open(const StoreOptions& options) {
  return std::unique_ptr<StateStore>(new StateStore(std::make_unique<StoreEngine>(options, StoreEngine::Start::kOpen)));
}

std::uint64_t StateStore::minimum_ram(const StoreOptions& options) { return MemoryPlan::minimum(options); }

void StateStore::plan(std::shared_ptr<const AccessPlan> round) { engine_->plan(std::move(round)); }
void StateStore::begin_round(std::function<void(NodeLease)> ready, std::function<void()> done) {
  engine_->begin_round(std::move(ready), std::move(done));
}
RoundReport StateStore::end_round() { return engine_->end_round(); }
void StateStore::checkpoint(std::string_view note) { engine_->checkpoint(note); }
void StateStore::prepare_checkpoint(std::string_view note) { engine_->prepare_checkpoint(note); }
void StateStore::commit_checkpoint() { engine_->commit_checkpoint(); }
const std::string& StateStore::checkpoint_note() const { return engine_->checkpoint_note(); }
std::uint64_t StateStore::checkpoint_count() const { return engine_->checkpoint_count(); }
void StateStore::demote(std::span<const NodeId> nodes) { engine_->demote(nodes); }
void StateStore::promote(std::span<const NodeId> nodes) { engine_->promote(nodes); }
VerifyReport StateStore::verify() { return engine_->verify(); }
Version StateStore::version(NodeId node) const { return engine_->version(node); }
StoreReport StateStore::report() const { return engine_->report(); }
const StateLayout& StateStore::layout() const { return engine_->layout(); }
std::vector<CheckpointInfo> StateStore::checkpoints(const StoreOptions& options) {
  return CheckpointReader::list(options);
}
void StateStore::remove(const StoreOptions& options) { StoreEngine::remove_files(options); }
std::uint32_t StateStore::places() const { return engine_->places(); }
NodeId StateStore::nodes() const { return engine_->nodes(); }
std::uint64_t StateStore::id() const { return engine_->id(); }

}  // namespace shoal
