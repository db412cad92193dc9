// Ranks that srun starts, with PMIx: a cluster of two hosts, each with its own slurmd.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "store/error.h"
#include "tests/e2e/program.h"
#include "tests/e2e/two_hosts.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

class Daemon {
 public:
  Daemon(const Arguments& command, const fs::path& log) {
    // It ends with the test, however that ends.
    Arguments words = Arguments{"setpriv", "--pdeathsig", "TERM"} + command;
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    const int failed = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    SHOAL_CHECK(failed == 0);
  }
  ~Daemon() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

 private:
  pid_t pid_ = -1;
};

// A command on one of the hosts. /sys stays as it is, unlike with `ip netns exec`: slurmd wants its control groups.
Arguments on_host(const std::string& name, const Arguments& command) {
  return Arguments{"nsenter", "--net=/run/netns/" + name,      "unshare", "--uts", "sh",
                   "-c",      R"(hostname "$0" && exec "$@")", name} +
         command;
}

class Cluster {
 public:
  explicit Cluster(const TwoHosts& hosts) : hosts_(hosts) {
    const fs::path conf = here_.path() / "slurm.conf";
    std::ofstream(conf) << fmt::format(R"(ClusterName=shoal-test
SlurmctldHost={0}({2})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={4}/state
SlurmdSpoolDir={4}/spool-%n
TmpFS={4}/tmp-%n
SlurmctldPidFile={4}/slurmctld.pid
SlurmdPidFile={4}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
NodeName={0} NodeAddr={2} CPUs=2 RealMemory=1024 State=UNKNOWN
NodeName={1} NodeAddr={3} CPUs=2 RealMemory=1024 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
)",
                                       hosts.first(), hosts.second(), TwoHosts::kFirstAddress, TwoHosts::kSecondAddress,
                                       here_.path().string());
    ::setenv("SLURM_CONF", conf.c_str(), 1);
    fs::create_directory(here_.path() / "state");
    for (const std::string& name : {hosts.first(), hosts.second()}) {
      fs::create_directory(here_.path() / ("spool-" + name));
      fs::create_directory(here_.path() / ("tmp-" + name));
    }
    daemons_[0].emplace(on_host(hosts.first(), {"slurmctld", "-D"}), log());
    daemons_[1].emplace(on_host(hosts.first(), {"slurmd", "-D", "-N", hosts.first()}), log());
    daemons_[2].emplace(on_host(hosts.second(), {"slurmd", "-D", "-N", hosts.second()}), log());
  }

  // Within half a minute.
  bool comes_up() const {
    for (int tries = 0; tries < 60; ++tries) {
      if (run("sinfo --noheader --states=idle --format=%D > idle 2> /dev/null") &&
          std::atoi(read_text(here_.path() / "idle").c_str()) == 2) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    return false;
  }

  fs::path log() const { return here_.path() / "log"; }
  Arguments srun(const Arguments& options) const {
    return on_host(hosts_.first(),
                   Arguments{"timeout", "--kill-after", "10", "600", "srun", "--mpi=pmix", "--overcommit"} + options);
  }
  bool run(const std::string& command) const {
    return std::system(fmt::format("cd {} && nsenter --net=/run/netns/{} unshare --uts sh -c 'hostname {} && {}'",
                                   here_.path().string(), hosts_.first(), hosts_.first(), command)
                           .c_str()) == 0;
  }

 private:
  const TwoHosts& hosts_;
  TemporaryDirectory here_;
  std::optional<Daemon> daemons_[3];
};

class RanksUnderSlurm : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.there()) GTEST_SKIP() << "NOT TESTED: Slurm. Network namespaces cannot be made here; run as root";
    if (std::system("exec > /dev/null; command -v slurmctld && command -v slurmd && command -v srun") != 0) {
      GTEST_SKIP() << "NOT TESTED: Slurm. It is not installed; scripts/setup slurm does that";
    }
    cluster_.emplace(hosts_);
    ASSERT_TRUE(cluster_->comes_up()) << read_text(cluster_->log());
  }

  const Arguments arguments_ = {
      "--quiet", "--model", "quadratic:20000:1:0.1", "--nodes", "40", "--graph", "ring", "--threads",
      "1",       "--init",  "independent",           "--seed",  "3",  "--ram",   "64MiB"};
  TwoHosts hosts_;
  TemporaryDirectory here_;
  std::optional<Cluster> cluster_;
};

TEST_F(RanksUnderSlurm, GiveTheSameBitsOnOneHostAndOnTwo) {
  const Arguments rounds = {"--rounds", "4"};
  ASSERT_TRUE(run_to_summary(arguments_ + rounds, here_.path(), "one").is_object());
  for (const unsigned hosts : {1U, 2U}) {
    SCOPED_TRACE(hosts);
    const std::string out = fmt::format("on-{}", hosts);
    const auto summary = run_to_summary(arguments_ + rounds, here_.path(), out,
                                        cluster_->srun({fmt::format("--nodes={}", hosts), "--ntasks=2"}));
    ASSERT_TRUE(summary.is_object());
    expect_same_results(here_.path() / out, here_.path() / "one");
    EXPECT_EQ(summary["ranks"], 2);
    EXPECT_EQ(summary["hosts"], hosts);
    EXPECT_EQ(summary["remote"]["shared_memory_bytes"] == 0, hosts == 2);
  }
}

TEST_F(RanksUnderSlurm, EndWithOneMessage) {
  const Outcome outcome = run_program(arguments_ + Arguments{"--store", "/proc/{rank}", "--rounds", "4"}, here_.path(),
                                      cluster_->srun({"--nodes=2", "--ntasks=2"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(own_lines(outcome.err).size(), 1U) << outcome.err;
}

// As sbatch --signal=USR1@... does before the time is up.
TEST_F(RanksUnderSlurm, SaveWhatTheyHaveDoneWhenSlurmSaysThatTimeIsUp) {
  const Arguments rounds = {"--rounds", "200", "--checkpoint-every", "1000"};
  ASSERT_TRUE(run_to_summary(arguments_ + rounds, here_.path(), "one").is_object());
  const Arguments launcher = cluster_->srun({"--nodes=2", "--ntasks=2"});
  // Slow, so that it is not done before it is asked.
  Program program(arguments_ + rounds + Arguments{"--out", "run", "--slow-rank", "1:20x"}, here_.path(), launcher);
  wait_until(program, [&] { return rounds_in(here_.path() / "run") >= 2; });
  ASSERT_TRUE(cluster_->run("squeue --noheader --format=%A | xargs scancel --signal=USR1"));
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto done = rounds_in(here_.path() / "run");
  EXPECT_LT(done, 200U) << "it was not asked to end";
  const auto resumed = run_to_summary(arguments_ + rounds + Arguments{"--resume"}, here_.path(), "run", launcher);
  ASSERT_TRUE(resumed.is_object());
  EXPECT_EQ(resumed["resumed_at_round"], done);
  expect_same_results(here_.path() / "run", here_.path() / "one");
}

// examples/shoal.sbatch on a smaller cluster, first for half of the rounds.
TEST_F(RanksUnderSlurm, RunTheExampleScriptAndGoOn) {
  ASSERT_TRUE(run_to_summary(arguments_ + Arguments{"--rounds", "4"}, here_.path(), "one").is_object());
  // In place of shoal-train: it also notes what its step was given.
  const fs::path program = here_.path() / "bin" / "shoal-train";
  fs::create_directory(program.parent_path());
  std::ofstream(program) << "#!/bin/sh\nscontrol --oneliner show step $SLURM_JOB_ID.$SLURM_STEP_ID > step\nexec "
                         << SHOAL_TRAIN << " \"$@\"\n";
  fs::permissions(program, fs::perms::owner_all);
  // With SLURM_EXACT srun is given what it asks for, not all that the job has.
  const std::string submit = fmt::format(
      "cd {0} && export PATH={0}/bin:$PATH SHOAL_CONFIG=one/config.toml SHOAL_OUT=run SHOAL_STORE={0}/state "
      "SLURM_EXACT=1 && "
      "timeout --kill-after 10 600 sbatch --wait --output=job.log --ntasks-per-node=1 --cpus-per-task=2 "
      "--mem-per-cpu=64M {1}/shoal.sbatch --checkpoint-every 1",
      here_.path().string(), SHOAL_EXAMPLES);
  const auto said = [&] { return read_text(here_.path() / "sbatch.log") + read_text(here_.path() / "job.log"); };
  ASSERT_TRUE(cluster_->run(submit + " --rounds 2 > sbatch.log 2>&1")) << said();
  EXPECT_EQ(summary_of(here_.path() / "run")["rounds"], 2);
  ASSERT_TRUE(cluster_->run(submit + " --rounds 4 --resume > sbatch.log 2>&1")) << said();

  const auto summary = summary_of(here_.path() / "run");
  ASSERT_TRUE(summary.is_object()) << said();
  expect_same_results(here_.path() / "run", here_.path() / "one");
  EXPECT_EQ(summary["resumed_at_round"], 2);
  EXPECT_EQ(summary["ranks"], 2);
  EXPECT_EQ(summary["hosts"], 2);
  EXPECT_EQ(summary["threads"], 2);
  EXPECT_EQ(summary["ram_budget_bytes"], 96 << 20) << "three quarters of 2 x 64 MiB";
  EXPECT_THAT(read_text(here_.path() / "step"), testing::HasSubstr("TRES=cpu=4,mem=256M,node=2"))
      << "of the job's cores and memory, the ranks were not given all";
  for (const int rank : {0, 1}) {
    EXPECT_THAT(read_text(here_.path() / "run/logs" / fmt::format("rank-{}.log", rank)), testing::HasSubstr("osc/"));
  }
}

}  // namespace
}  // namespace shoal
