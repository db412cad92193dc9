#include "comm/launch.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

namespace shoal {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// mpirun's options are in the environment of its ranks, whether they came from there or from its command line.
bool binding_was_asked_for() {
  constexpr const char* kChoices[] = {"OMPI_MCA_hwloc_base_binding_policy",
                                      "OMPI_MCA_hwloc_base_bind_to_core",
                                      "OMPI_MCA_hwloc_base_bind_to_socket",
                                      "OMPI_MCA_hwloc_base_cpu_set",
                                      "OMPI_MCA_hwloc_base_cpu_list",
                                      "OMPI_MCA_rmaps_base_cpus_per_rank",
                                      "OMPI_MCA_orte_rankfile"};
  if (std::ranges::any_of(kChoices, [](const char* name) { return std::getenv(name) != nullptr; })) return true;
  std::string mapping(variable("OMPI_MCA_rmaps_base_mapping_policy"));
  std::ranges::transform(mapping, mapping.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return mapping.find("PE=") != std::string::npos;
}

pid_t parent_of(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  constexpr std::string_view kName = "PPid:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kName)) return std::stoi(line.substr(kName.size()));
  }
  return 0;
}

// mpirun, or its daemon on this host. There may be shells in between, which have a rank's environment.
pid_t launcher() {
  pid_t pid = ::getppid();
  while (pid > 0 && text_of(fmt::format("/proc/{}/environ", pid)).find("OMPI_COMM_WORLD_RANK=") != std::string::npos) {
    pid = parent_of(pid);
  }
  return pid;
}

// In a list of components that are to be used; one that begins with ^ is of those that are not.
bool names_ucx(const char* name) {
  const std::string_view value = variable(name);
  return !value.starts_with('^') && value.find("ucx") != std::string_view::npos;
}

bool reads_other_processes(const fs::path& root) {
  // With 2 or 3 nobody may; Open MPI tries all the same, and complains of every long message.
  const std::string scope = text_of(root / "proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty() && scope[0] >= '2') return false;
  char from = 1;
  char to = 0;
  const iovec there{&from, 1};
  const iovec here{&to, 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

}  // namespace

std::string undo_unasked_binding() {
  if (std::getenv("OMPI_MCA_orte_bound_at_launch") == nullptr || binding_was_asked_for()) return {};
  cpu_set_t before;
  cpu_set_t allowed;
  const pid_t from = launcher();
  if (from == 0 || ::sched_getaffinity(0, sizeof(before), &before) != 0 ||
      ::sched_getaffinity(from, sizeof(allowed), &allowed) != 0 || CPU_EQUAL(&before, &allowed) ||
      ::sched_setaffinity(0, sizeof(allowed), &allowed) != 0) {
    return {};
  }
  return fmt::format("mpirun bound this rank to {} of {} cores; its threads use all of them (--bind-to is kept)",
                     CPU_COUNT(&before), CPU_COUNT(&allowed));
}

LaunchConditions launch_conditions(const fs::path& root) {
  std::error_code none;
  LaunchConditions conditions;
  conditions.rdma = fs::directory_iterator(root / "sys/class/infiniband", none) != fs::directory_iterator();
  conditions.ucx = names_ucx("OMPI_MCA_pml") || names_ucx("OMPI_MCA_osc");
  conditions.reads_others = reads_other_processes(root);
  return conditions;
}

std::vector<std::pair<std::string, std::string>> mpi_settings(const LaunchConditions& conditions) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"OMPI_MCA_btl_base_warn_component_unused", "0"},
      // Warns where there is no such network, and where there is one that UCX is for.
      {"OMPI_MCA_btl", conditions.rdma || conditions.ucx ? "^openib" : "^openib,uct"},
  };
  if (!conditions.rdma && !conditions.ucx) {
    settings.emplace_back("OMPI_MCA_osc", "^ucx");  // takes windows that it cannot serve over TCP
    settings.emplace_back("OMPI_MCA_pml", "^ucx,cm");
  }
  if (!conditions.reads_others) settings.emplace_back("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  return settings;
}

}  // namespace shoal
