// Stroke drawings, bent and placed into images: what the synthetic data sets are made of. Integer arithmetic only, so
// that every machine draws the same pixels from the same seed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "trainer/random.h"

namespace shoal {

// A drawing at more than twice the resolution of the images, so that bilinear samples of it stay smooth. Its border is
// empty: a place outside the drawing can be clamped to it.
inline constexpr int kGlyphSide = 64;
using Glyph = std::array<std::uint8_t, std::size_t{kGlyphSide} * kGlyphSide>;

// Lengths in 1/64 of the 16 x 16 grid that strokes are written on.
struct Pen {
  int radius = 0;
  int wobble = 0;  // every point is moved by up to this much in x and y
};

// `strokes`: a point is two hexadecimal digits (x to the right, y down), a stroke a word of points. The stroke starts
// and ends in its first and last point and rounds the corners between.
Glyph draw_glyph(std::string_view strokes, Pen pen, RandomStream& random);

// Random values within +-amplitude at 5 x 5 knots, interpolated over side x side pixels; side is a multiple of 4.
void fill_smoothly(RandomStream& random, int amplitude, int side, std::span<std::int32_t> field);

// Where in the glyph (in 1/256 of its pixels, from its centre) a step in the image leads, and where the image's centre
// lies.
struct Placement {
  int x_per_column = 0;
  int x_per_row = 0;
  int y_per_column = 0;
  int y_per_row = 0;
  int x = 0;
  int y = 0;
};

// Ink of a side x side image: the glyph seen through the placement, each pixel displaced by (bend_x, bend_y).
void place_glyph(const Glyph& glyph, const Placement& placement, std::span<const std::int32_t> bend_x,
                 std::span<const std::int32_t> bend_y, int side, std::span<std::uint8_t> ink);

}  // namespace shoal
