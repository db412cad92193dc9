#include "store/state_store.h"

#include <fmt/format.h>

#include <utility>

#include "store/checkpoint_reader.h"
#include "store/error.h"
#include "store/memory_plan.h"
#include "store/record_check.h"
#include "store/store_engine.h"
#include "store/store_files.h"

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
const std::byte* NodeLease::current() const {
  engine_->look_at(*flight_, flight_->own);
  return flight_->own_payload;
}
std::byte* NodeLease::next() const { return flight_->next_payload; }
std::byte* NodeLease::private_state() const {
  engine_->look_at(*flight_, flight_->private_frame);
  return flight_->private_payload;
}
std::size_t NodeLease::reads() const { return flight_->read_payloads.size(); }
const std::byte* NodeLease::read(std::size_t k) const {
  engine_->look_at(*flight_, flight_->reads[k]);
  return flight_->read_payloads[k];
}

const std::byte* NodeLease::input(std::size_t k, RecordCheck& check) const {
  engine_->begin_check(*flight_, k == 0 ? flight_->own : flight_->reads[k - 1], check);
  return k == 0 ? flight_->own_payload : flight_->read_payloads[k - 1];
}

void NodeLease::finish_input(std::size_t k, RecordCheck& check) const {
  if (check.due()) engine_->finish_check(*flight_, k == 0 ? flight_->own : flight_->reads[k - 1], check);
}

std::byte* NodeLease::private_state(RecordCheck& check) const {
  engine_->begin_check(*flight_, flight_->private_frame, check);
  return flight_->private_payload;
}

void NodeLease::finish_writing(RecordCheck& private_check) const {
  if (private_check.due()) engine_->finish_check(*flight_, flight_->private_frame, private_check);
  engine_->seal_new(*flight_);
}

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
  engine_->complete(*flight_);
  engine_->give_back(std::exchange(flight_, nullptr), true);
}

void NodeLease::give_up(std::exception_ptr cause) {
  SHOAL_CHECK(flight_ != nullptr);
  flight_->error = std::move(cause);
  engine_->give_back(std::exchange(flight_, nullptr), false);
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
bool StateStore::failed() const { return engine_->failed(); }
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
void StateStore::require_free(const StoreOptions& options) {
  shoal::require_free(StoreFolders(options), options.overwrite);
}
void StateStore::remove(const StoreOptions& options) { StoreEngine::remove_files(options); }
std::uint32_t StateStore::places() const { return engine_->places(); }
NodeId StateStore::nodes() const { return engine_->nodes(); }
std::uint64_t StateStore::id() const { return engine_->id(); }

}  // namespace shoal
