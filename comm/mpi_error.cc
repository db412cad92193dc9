#include "comm/mpi_error.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "store/error.h"

namespace shoal {

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

}  // namespace shoal
