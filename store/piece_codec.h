// How the cold tier keeps a piece of a record: byte-shuffled, each plane compressed on its own by zstd level 1.
//
// Planes apart, because a plane of noise (the low mantissa bytes) next to one of exponents spoils zstd's tables: 1.20x
// instead of 1.14x on trained weights, and twice as fast both ways. Not through RocksDB's block compression, which
// throws away every gain below 1/8, and trained weights gain just less than that.
//
// Encoded: nothing at all when every byte of the piece is zero. Else one byte whose bit p says that plane p is a zstd
// frame (as it is otherwise), the four planes, and the tail that makes no full element. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace shoal {

class PieceEncoder {
 public:
  explicit PieceEncoder(std::size_t largest_piece);

  std::span<const std::byte> encode(std::span<const std::byte> piece);  // valid until the next call

 private:
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  std::vector<std::byte> shuffled_;
  std::vector<std::byte> encoded_;
};

class PieceDecoder {
 public:
  explicit PieceDecoder(std::size_t largest_piece);

  // False when `encoded` is not the encoding of a piece of this size.
  [[nodiscard]] bool decode(std::span<const std::byte> encoded, std::span<std::byte> piece);

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::vector<std::byte> shuffled_;
};

}  // namespace shoal
