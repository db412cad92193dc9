// Compiled with -mavx512f.
#define XXH3_COPY xxh3_avx512
#include "store/checksum_copy.inc"
