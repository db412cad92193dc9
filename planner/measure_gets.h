// How fast another rank's records come, measured between two ranks of this host through the window that runs use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace shoal {

struct GetSpeed {
  double mapped_bytes_per_second = 0;     // out of the memory that ranks of one host share
  double one_sided_bytes_per_second = 0;  // MPI_Rget, as if they were on different hosts
};

// Starts the two ranks with mpirun; `folder` is for what they print.
GetSpeed measure_gets(std::uint64_t record_bytes, const std::filesystem::path& folder);

// What such a rank does: kMeasureGets RECORD_BYTES on shoal-plan's command line. Rank 0 prints the figures.
inline constexpr const char* kMeasureGets = "measure-gets";
void get_as_rank(std::uint64_t record_bytes);

}  // namespace shoal
