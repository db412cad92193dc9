#include "pipeline/node_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include "pipeline/trace_file.h"
#include "store/error.h"
#include "store/faulty_device.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::HasSubstr;

constexpr NodeId kNodes = 120;

StoreOptions options_in(const std::filesystem::path& directory) {
  StoreOptions options;
  options.directory = directory;
  options.nodes = kNodes;
  options.layout = StateLayout(
      {{"weights", DType::kFloat32, {3000}, Part::kPublic}, {"momentum", DType::kFloat32, {2000}, Part::kPrivate}});
  options.max_reads_per_step = 3;
  options.ram_bytes = StateStore::minimum_ram(options) + 12 * options.layout.state_bytes();
  return options;
}

std::shared_ptr<const AccessPlan> round_of(StepKind kind, std::size_t reads) {
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < kNodes; ++node) {
    std::vector<NodeId> whom;
    for (std::size_t k = 1; k <= reads; ++k) whom.push_back(static_cast<NodeId>((node + 17 * k) % kNodes));
    plan->add(kind, node, whom);
  }
  return plan;
}

// next = own + sum of reads, computed in the mix; the private state counts the computations.
class Adding : public StepWork {
 public:
  void mix(NodeLease& lease, unsigned worker) override {
    most_worker_ = std::max(most_worker_.load(), worker);
    if (lease.node() == fail_mix_at_) throw Error("node 50 cannot be mixed");
    auto* const next = reinterpret_cast<float*>(lease.next());
    for (std::size_t i = 0; i < 3000; ++i) {
      next[i] = lease.kind() == StepKind::kCreate ? static_cast<float>(lease.node() % 7)
                                                  : reinterpret_cast<const float*>(lease.current())[i];
      for (std::size_t k = 0; k < lease.reads(); ++k) next[i] += reinterpret_cast<const float*>(lease.read(k))[i];
    }
  }
  void compute(NodeLease& lease, unsigned) override {
    reinterpret_cast<float*>(lease.private_state())[5] += 1;
    if (lease.node() == fail_at_) throw Error("node 50 cannot be trained");
    ++computed_;
  }

  std::atomic<unsigned> most_worker_ = 0;
  std::atomic<unsigned> computed_ = 0;
  NodeId fail_at_ = kNoNode;
  NodeId fail_mix_at_ = kNoNode;
};

class Checking : public StepWork {
 public:
  void mix(NodeLease&, unsigned) override {}
  void compute(NodeLease& lease, unsigned) override {
    sum_ += static_cast<std::uint64_t>(reinterpret_cast<const float*>(lease.current())[2999]) * (lease.node() + 1);
    if (reinterpret_cast<const float*>(lease.private_state())[5] != 3) ++wrong_;
  }
  std::atomic<std::uint64_t> sum_ = 0;
  std::atomic<unsigned> wrong_ = 0;
};

std::uint64_t run_with(unsigned threads, Trace* trace) {
  TemporaryDirectory directory;
  StoreOptions options = options_in(directory.path() / "store");
  options.workers = threads;
  const auto store = StateStore::create(options);
  NodePipeline pipeline(*store, threads, trace);
  Adding work;
  for (const auto& plan :
       {round_of(StepKind::kCreate, 0), round_of(StepKind::kUpdate, 3), round_of(StepKind::kUpdate, 3)}) {
    store->plan(plan);
    EXPECT_EQ(pipeline.run(work).steps, kNodes);
  }
  EXPECT_LT(work.most_worker_, threads);
  EXPECT_EQ(work.computed_, 3 * kNodes);
  Checking check;
  store->plan(round_of(StepKind::kInspect, 0));
  pipeline.run(check);
  EXPECT_EQ(check.wrong_, 0U);
  EXPECT_GT(pipeline.times().wall, 0);
  return check.sum_;
}

TEST(NodePipeline, GivesTheSameStateForAnyNumberOfThreads) {
  const std::uint64_t one = run_with(1, nullptr);
  EXPECT_EQ(run_with(2, nullptr), one);
  EXPECT_EQ(run_with(5, nullptr), one);
  EXPECT_GT(one, 0U);
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

class FailingStage : public testing::TestWithParam<const char*> {};

// Whoever waits for other ranks in before_end would wait in vain; so it is not called, and somebody else has been told.
TEST_P(FailingStage, EndsTheRoundWithItsErrorToldOnceAndDoesNotWaitForOtherRanks) {
  const std::string stage = GetParam();
  const std::string cause = stage == "Mix"       ? "node 50 cannot be mixed"
                            : stage == "Compute" ? "node 50 cannot be trained"
                                                 : "Input/output error";
  TemporaryDirectory directory;
  StoreOptions options = options_in(directory.path() / "store");
  auto script = std::make_shared<FaultScript>();
  options.device_hook = [&](std::unique_ptr<IoDevice> device) { return make_faulty_device(std::move(device), script); };
  std::vector<std::string> told;
  options.on_failure = [&](const std::exception_ptr& error) { told.push_back(message_of(error)); };
  const auto store = StateStore::create(options);
  NodePipeline pipeline(*store, 4, nullptr);
  Adding work;
  bool waited = false;
  store->plan(round_of(StepKind::kCreate, 0));
  pipeline.run(work, [&] { waited = true; });
  EXPECT_TRUE(std::exchange(waited, false));

  const auto fail = [&](DeviceOperation operation) {
    script->fail(script->operations(operation) + 10, Fault::kIoError, operation);
  };
  if (stage == "Mix") work.fail_mix_at_ = 50;
  if (stage == "Compute") work.fail_at_ = 50;
  if (stage == "Fetch") fail(DeviceOperation::kRead);
  if (stage == "WriteBack") fail(DeviceOperation::kWrite);
  const unsigned before = work.computed_;
  store->plan(round_of(StepKind::kUpdate, 3));
  EXPECT_THAT([&] { pipeline.run(work, [&] { waited = true; }); }, testing::ThrowsMessage<Error>(HasSubstr(cause)));
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr(cause)));
  EXPECT_FALSE(waited);
  EXPECT_LT(work.computed_, before + kNodes) << "the rest was given up";
  EXPECT_THAT([&] { store->plan(round_of(StepKind::kUpdate, 3)); }, testing::ThrowsMessage<Error>(HasSubstr(cause)));
}

INSTANTIATE_TEST_SUITE_P(All, FailingStage, testing::Values("Fetch", "Mix", "Compute", "WriteBack"),
                         [](const auto& test) { return std::string(test.param); });

TEST(NodePipeline, DrawsItsStagesWhenAsked) {
  Trace trace;
  trace.start_nodes();
  run_with(2, &trace);
  const std::string text = TraceText(trace, 0, "rank 0").next(std::numeric_limits<std::size_t>::max());
  for (const char* name : {"\"mix\"", "\"compute\"", "waiting for store", "waiting for compute", "worker 0"})
    EXPECT_THAT(text, HasSubstr(name));
  EXPECT_EQ(trace.report().left_out, 0U);
}

}  // namespace
}  // namespace shoal
