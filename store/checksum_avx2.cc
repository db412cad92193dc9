// Compiled with -mavx2.
#define XXH3_COPY xxh3_avx2
#include "store/checksum_copy.inc"
