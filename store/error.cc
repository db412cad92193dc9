#include "store/error.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace shoal {

std::string errno_text(int error_number) {
  return std::generic_category().message(error_number) + " (errno " + std::to_string(error_number) + ")";
}

void throw_errno(std::string_view what, int error_number) {
  throw Error(std::string(what) + ": " + errno_text(error_number));
}

namespace detail {
void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "shoal: internal error at %s:%d: %s does not hold. This is a bug; please report it.\n", file,
               line, condition);
  std::abort();
}
}  // namespace detail

}  // namespace shoal
