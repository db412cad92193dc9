#include "comm/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "tests/store/temporary_directory.h"

namespace shoal::testing {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> settings(const LaunchConditions& conditions) {
  const auto list = mpi_settings(conditions);
  return {list.begin(), list.end()};
}

TEST(Launch, LeavesTheNetworkToUcxWhereThereIsRdma) {
  const TemporaryDirectory root;
  EXPECT_FALSE(launch_conditions(root.path()).rdma);
  fs::create_directories(root.path() / "sys/class/infiniband");
  EXPECT_FALSE(launch_conditions(root.path()).rdma) << "the driver is there, and no device";
  fs::create_directories(root.path() / "sys/class/infiniband/mlx5_0");
  EXPECT_TRUE(launch_conditions(root.path()).rdma);

  auto plain = settings({});
  EXPECT_EQ(plain["OMPI_MCA_osc"], "^ucx");
  EXPECT_EQ(plain["OMPI_MCA_pml"], "^ucx,cm");
  for (const LaunchConditions& ucx :
       {LaunchConditions{.rdma = true, .ucx = false}, LaunchConditions{.rdma = false, .ucx = true}}) {
    for (const auto& [name, value] : settings(ucx)) {
      EXPECT_TRUE(name == "OMPI_MCA_btl" || name == "OMPI_MCA_btl_base_warn_component_unused") << name;
      EXPECT_THAT(value, ::testing::Not(::testing::HasSubstr("uc"))) << name;
    }
  }
}

TEST(Launch, LetsRanksCopyThroughBuffersWhereTheyMayNotReadEachOthersMemory) {
  const TemporaryDirectory root;
  fs::create_directories(root.path() / "proc/sys/kernel/yama");
  const auto with_scope = [&](const char* scope) {
    std::ofstream(root.path() / "proc/sys/kernel/yama/ptrace_scope") << scope << "\n";
    return launch_conditions(root.path()).reads_others;
  };
  EXPECT_EQ(with_scope("1"), with_scope("0"));
  EXPECT_FALSE(with_scope("2"));
  EXPECT_FALSE(with_scope("3"));
  EXPECT_FALSE(settings({}).contains("OMPI_MCA_btl_vader_single_copy_mechanism"));
  EXPECT_EQ(settings({.reads_others = false})["OMPI_MCA_btl_vader_single_copy_mechanism"], "none");
}

}  // namespace
}  // namespace shoal::testing
