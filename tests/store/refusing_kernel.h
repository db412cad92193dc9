// Runs a piece of a test on a thread for which the kernel refuses something (seccomp; needs no privileges), so that the
// degraded modes are tested on machines that have everything.
#pragma once

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "store/error.h"

namespace shoal {

enum class Refused { kIoUring, kDirectOpen, kReadingOthers };

// Threads and processes that `body` starts are refused the same. The system calls are told apart by number alone:
// x86-64, aarch64.
inline void with_refusing_kernel(Refused refused, const std::function<void()>& body) {
  std::thread([&] {
    constexpr auto kNumber = static_cast<unsigned>(offsetof(seccomp_data, nr));
    constexpr auto kOpenFlags = static_cast<unsigned>(offsetof(seccomp_data, args[2]));
    const auto refuse_call = [](unsigned call) {
      return std::vector<sock_filter>{
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      };
    };
    const std::vector<sock_filter> no_direct = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOpenFlags),        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_DIRECT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    std::vector<sock_filter> filter = refused == Refused::kIoUring      ? refuse_call(SYS_io_uring_setup)
                                      : refused == Refused::kDirectOpen ? no_direct
                                                                        : refuse_call(SYS_process_vm_readv);
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    SHOAL_CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    SHOAL_CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    body();
  }).join();
}

}  // namespace shoal
