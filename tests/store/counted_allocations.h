// How often this process has called operator new so far; the test program's own replacement counts.
#pragma once

#include <cstdint>

namespace shoal::testing {

// The sanitizers bring an operator new of their own, which must stay.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kCountsAllocations = false;
#else
inline constexpr bool kCountsAllocations = true;
#endif

std::uint64_t counted_allocations();

}  // namespace shoal::testing
