#include "store/byte_shuffle.h"

#include <algorithm>

#include "store/error.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace shoal {
namespace {

constexpr std::size_t kStride = 4;

#ifdef __SSE2__
constexpr std::size_t kStep = 16;  // elements a vector step takes: one register of each plane

__m128i load(const std::byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
void store(std::byte* at, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(at), value); }

// The bytes of one place: each 32-bit lane holds one byte of it, and two saturating packs squeeze out the zeroes.
__m128i squeeze(__m128i a, __m128i b, __m128i c, __m128i d) {
  return _mm_packus_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
}

template <int kPlace>
__m128i plane(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m128i low = _mm_set1_epi32(0xff);
  const auto byte_of = [&](__m128i v) { return _mm_and_si128(_mm_srli_epi32(v, 8 * kPlace), low); };
  return squeeze(byte_of(a), byte_of(b), byte_of(c), byte_of(d));
}

std::size_t shuffle_vectors(const std::byte* from, std::byte* to, std::size_t elements) {
  std::size_t i = 0;
  for (; i + kStep <= elements; i += kStep) {
    const std::byte* at = from + i * kStride;
    const __m128i a = load(at), b = load(at + 16), c = load(at + 32), d = load(at + 48);
    store(to + i, plane<0>(a, b, c, d));
    store(to + elements + i, plane<1>(a, b, c, d));
    store(to + 2 * elements + i, plane<2>(a, b, c, d));
    store(to + 3 * elements + i, plane<3>(a, b, c, d));
  }
  return i;
}

std::size_t unshuffle_vectors(const std::byte* from, std::byte* to, std::size_t elements) {
  std::size_t i = 0;
  for (; i + kStep <= elements; i += kStep) {
    const __m128i p0 = load(from + i), p1 = load(from + elements + i);
    const __m128i p2 = load(from + 2 * elements + i), p3 = load(from + 3 * elements + i);
    const __m128i low01 = _mm_unpacklo_epi8(p0, p1), high01 = _mm_unpackhi_epi8(p0, p1);
    const __m128i low23 = _mm_unpacklo_epi8(p2, p3), high23 = _mm_unpackhi_epi8(p2, p3);
    std::byte* at = to + i * kStride;
    store(at, _mm_unpacklo_epi16(low01, low23));
    store(at + 16, _mm_unpackhi_epi16(low01, low23));
    store(at + 32, _mm_unpacklo_epi16(high01, high23));
    store(at + 48, _mm_unpackhi_epi16(high01, high23));
  }
  return i;
}
#else
std::size_t shuffle_vectors(const std::byte*, std::byte*, std::size_t) { return 0; }
std::size_t unshuffle_vectors(const std::byte*, std::byte*, std::size_t) { return 0; }
#endif

}  // namespace

void byte_shuffle(std::span<const std::byte> from, std::span<std::byte> to) {
  SHOAL_CHECK(from.size() == to.size());
  const std::size_t elements = from.size() / kStride;
  for (std::size_t i = shuffle_vectors(from.data(), to.data(), elements); i < elements; ++i) {
    for (std::size_t place = 0; place < kStride; ++place) to[place * elements + i] = from[i * kStride + place];
  }
  std::ranges::copy(from.subspan(elements * kStride), to.begin() + static_cast<std::ptrdiff_t>(elements * kStride));
}

void byte_unshuffle(std::span<const std::byte> from, std::span<std::byte> to) {
  SHOAL_CHECK(from.size() == to.size());
  const std::size_t elements = from.size() / kStride;
  for (std::size_t i = unshuffle_vectors(from.data(), to.data(), elements); i < elements; ++i) {
    for (std::size_t place = 0; place < kStride; ++place) to[i * kStride + place] = from[place * elements + i];
  }
  std::ranges::copy(from.subspan(elements * kStride), to.begin() + static_cast<std::ptrdiff_t>(elements * kStride));
}

}  // namespace shoal
