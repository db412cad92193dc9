// SHOAL_VECTOR_CLONES before a function with hot loops over floats: compiled for plain x86-64 and for AVX2, chosen when
// the program starts. The sources that use it are compiled with -ffp-contract=off: a fused multiply-add rounds
// differently, and then the bits would depend on the machine.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define SHOAL_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SHOAL_VECTOR_CLONES
#endif
