#include "store/piece_codec.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "store/byte_shuffle.h"
#include "store/error.h"

namespace shoal {
namespace {

constexpr std::size_t kPlanes = 4;

bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

void PieceEncoder::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void PieceDecoder::FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

PieceEncoder::PieceEncoder(std::size_t largest_piece)
    : context_(ZSTD_createCCtx()), shuffled_(largest_piece), encoded_(1 + largest_piece) {
  SHOAL_CHECK(context_ != nullptr);
  // What there is to gain in a plane of exponents is entropy, not matches. Looking only for long ones, in a small
  // table, doubles the speed and gains another percent.
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, 1);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_minMatch, 7);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_hashLog, 8);
}

std::span<const std::byte> PieceEncoder::encode(std::span<const std::byte> piece) {
  SHOAL_CHECK(piece.size() <= shuffled_.size());
  if (all_zero(piece)) return {};
  byte_shuffle(piece, std::span(shuffled_).first(piece.size()));
  const std::size_t plane_bytes = piece.size() / kPlanes;
  std::byte compressed{0};
  std::byte* to = encoded_.data() + 1;
  for (std::size_t p = 0; p < kPlanes; ++p) {
    const std::byte* plane = shuffled_.data() + p * plane_bytes;
    // A plane that does not shrink does not fit, which is an error code, not an overrun.
    const std::size_t size = ZSTD_compress2(context_.get(), to, plane_bytes, plane, plane_bytes);
    if (!ZSTD_isError(size) && size < plane_bytes) {
      compressed |= std::byte{1} << p;
      to += size;
    } else {
      to = std::copy_n(plane, plane_bytes, to);
    }
  }
  to = std::copy_n(shuffled_.data() + kPlanes * plane_bytes, piece.size() % kPlanes, to);
  encoded_[0] = compressed;
  return {encoded_.data(), to};
}

PieceDecoder::PieceDecoder(std::size_t largest_piece) : context_(ZSTD_createDCtx()), shuffled_(largest_piece) {
  SHOAL_CHECK(context_ != nullptr);
}

bool PieceDecoder::decode(std::span<const std::byte> encoded, std::span<std::byte> piece) {
  SHOAL_CHECK(piece.size() <= shuffled_.size());
  if (encoded.empty()) {
    std::ranges::fill(piece, std::byte{0});
    return true;
  }
  const std::size_t plane_bytes = piece.size() / kPlanes;
  const std::byte compressed = encoded[0];
  std::span<const std::byte> from = encoded.subspan(1);
  for (std::size_t p = 0; p < kPlanes; ++p) {
    std::byte* plane = shuffled_.data() + p * plane_bytes;
    std::size_t size = plane_bytes;
    if ((compressed >> p & std::byte{1}) == std::byte{1}) {
      size = ZSTD_findFrameCompressedSize(from.data(), from.size());
      if (ZSTD_isError(size)) return false;
      if (ZSTD_decompressDCtx(context_.get(), plane, plane_bytes, from.data(), size) != plane_bytes) return false;
    } else {
      if (size > from.size()) return false;
      std::copy_n(from.data(), size, plane);
    }
    from = from.subspan(size);
  }
  if (from.size() != piece.size() % kPlanes) return false;
  std::ranges::copy(from, shuffled_.data() + kPlanes * plane_bytes);
  byte_unshuffle(std::span(shuffled_).first(piece.size()), piece);
  return true;
}

}  // namespace shoal
