// The CUDA runtime, which a LibTorch for CUDA brings along: its functions by name, since this program is built without
// its headers.
#pragma once

#include <dlfcn.h>

namespace shoal {

// Null where there is none in this process.
template <typename Function>
Function in_process(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace shoal
