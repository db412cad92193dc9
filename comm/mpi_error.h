// MPI calls that fail say so: `check(MPI_Barrier(comm), "MPI_Barrier")`.
#pragma once

#include <mpi.h>

#include <string_view>

namespace shoal {

// Throws Error with MPI's own text unless `code` is MPI_SUCCESS.
void check(int code, std::string_view call);

}  // namespace shoal
