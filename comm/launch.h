// What a launcher has done to this process before its first MPI call, and what Open MPI is told before that.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace shoal {

// mpirun binds ranks to cores, one or two of them to one core each, with all their threads. Where nobody asked for a
// binding, this rank may use again what its launcher may. Returns what was done, for people; empty: nothing.
std::string undo_unasked_binding();

// What it depends on how ranks speak to each other best.
struct LaunchConditions {
  bool rdma = false;         // there is a network such as InfiniBand
  bool ucx = false;          // was asked for
  bool reads_others = true;  // a process may read another's memory (process_vm_readv); containers may forbid it
};
LaunchConditions launch_conditions(const std::filesystem::path& root = "/");

// Environment variables with which Open MPI runs without warnings and has windows that work; whoever has set one of
// them keeps it.
std::vector<std::pair<std::string, std::string>> mpi_settings(const LaunchConditions& conditions);

}  // namespace shoal
