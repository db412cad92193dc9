#include "trainer/glyph.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "store/error.h"

namespace shoal {
namespace {

// Strokes are laid out in 1/64 of a grid unit, 1/16 of a glyph pixel.
constexpr int kUnit = 64;
constexpr int kPixel = 16;
constexpr int kSoftEdge = 28;
constexpr int kStepsPerCurve = 24;

struct Point {
  int x = 0;
  int y = 0;
};

Point between(Point a, Point b) { return {(a.x + b.x) / 2, (a.y + b.y) / 2}; }

int hex_digit(char c) {
  SHOAL_CHECK((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'));
  return c <= '9' ? c - '0' : c - 'A' + 10;
}

void stamp(Glyph& glyph, Point centre, int radius) {
  const int reach = radius + kSoftEdge;
  const auto first = [&](int at) { return std::max(1, (at - reach) / kPixel); };
  const auto last = [&](int at) { return std::min(kGlyphSide - 2, (at + reach) / kPixel); };
  for (int y = first(centre.y); y <= last(centre.y); ++y) {
    for (int x = first(centre.x); x <= last(centre.x); ++x) {
      const int dx = x * kPixel + kPixel / 2 - centre.x;
      const int dy = y * kPixel + kPixel / 2 - centre.y;
      const int ink = 255 * (reach * reach - dx * dx - dy * dy) / (reach * reach - radius * radius);
      std::uint8_t& pixel = glyph[static_cast<std::size_t>(y * kGlyphSide + x)];
      pixel = std::max(pixel, static_cast<std::uint8_t>(std::clamp(ink, 0, 255)));
    }
  }
}

void draw_curve(Glyph& glyph, Point from, Point corner, Point to, int radius) {
  constexpr int kN = kStepsPerCurve;
  for (int t = 0; t <= kN; ++t) {
    const int a = (kN - t) * (kN - t);
    const int b = 2 * t * (kN - t);
    const int c = t * t;
    stamp(glyph,
          {(a * from.x + b * corner.x + c * to.x) / (kN * kN), (a * from.y + b * corner.y + c * to.y) / (kN * kN)},
          radius);
  }
}

// A quadratic B-spline through the midpoints, with straight ends.
void draw_stroke(Glyph& glyph, std::span<const Point> points, int radius) {
  SHOAL_CHECK(points.size() >= 2);
  Point pen = points[0];
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const Point from = i == 1 ? between(points[0], points[1]) : pen;
    if (i == 1) draw_curve(glyph, points[0], between(points[0], from), from, radius);
    pen = between(points[i], points[i + 1]);
    draw_curve(glyph, from, points[i], pen, radius);
  }
  draw_curve(glyph, pen, between(pen, points.back()), points.back(), radius);
}

}  // namespace

Glyph draw_glyph(std::string_view strokes, Pen pen, RandomStream& random) {
  const auto wobble = [&] {
    return static_cast<int>(random.below(static_cast<std::uint32_t>(2 * pen.wobble + 1))) - pen.wobble;
  };
  Glyph glyph{};
  std::vector<Point> points;
  for (std::size_t i = 0; i <= strokes.size(); i += points.empty() ? 1 : 2) {
    if (i == strokes.size() || strokes[i] == ' ') {
      draw_stroke(glyph, points, pen.radius);
      points.clear();
      continue;
    }
    SHOAL_CHECK(i + 1 < strokes.size());
    const int x = hex_digit(strokes[i]) * kUnit + wobble();
    const int y = hex_digit(strokes[i + 1]) * kUnit + wobble();
    points.push_back({x, y});
  }
  return glyph;
}

void fill_smoothly(RandomStream& random, int amplitude, int side, std::span<std::int32_t> field) {
  constexpr int kKnots = 5;
  const int cell = side / (kKnots - 1);
  SHOAL_CHECK(cell * (kKnots - 1) == side && field.size() == static_cast<std::size_t>(side * side));
  std::array<std::array<std::int32_t, kKnots>, kKnots> knots;
  for (auto& row : knots) {
    for (auto& knot : row) {
      knot = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(2 * amplitude + 1))) - amplitude;
    }
  }
  auto pixel = field.begin();
  for (int y = 0; y < side; ++y) {
    const auto& above = knots[static_cast<std::size_t>(y / cell)];
    const auto& below = knots[static_cast<std::size_t>(y / cell + 1)];
    const int down = y % cell * 256 / cell;
    for (std::size_t knot = 0; knot + 1 < kKnots; ++knot) {
      const int left = above[knot] * (256 - down) + below[knot] * down;
      const int right = above[knot + 1] * (256 - down) + below[knot + 1] * down;
      const int slope = (right - left) / cell;
      for (int x = 0; x < cell; ++x) *pixel++ = (left + slope * x) >> 8;
    }
  }
}

void place_glyph(const Glyph& glyph, const Placement& placement, std::span<const std::int32_t> bend_x,
                 std::span<const std::int32_t> bend_y, int side, std::span<std::uint8_t> ink) {
  SHOAL_CHECK(ink.size() == static_cast<std::size_t>(side * side));
  SHOAL_CHECK(bend_x.size() == ink.size() && bend_y.size() == ink.size());
  constexpr int kEnd = (kGlyphSide - 2) * 256 + 255;
  std::size_t pixel = 0;
  for (int row = 0; row < side; ++row) {
    // Pixel centres, in half pixels from the image's centre.
    const int down = 2 * row + 1 - side;
    const int row_x = kGlyphSide * 128 + placement.x + placement.x_per_row * down / 2;
    const int row_y = kGlyphSide * 128 + placement.y + placement.y_per_row * down / 2;
    for (int column = 0; column < side; ++column, ++pixel) {
      const int right = 2 * column + 1 - side;
      const int x = std::clamp(row_x + ((placement.x_per_column * right) >> 1) + bend_x[pixel], 0, kEnd);
      const int y = std::clamp(row_y + ((placement.y_per_column * right) >> 1) + bend_y[pixel], 0, kEnd);
      const std::uint8_t* corner = glyph.data() + (y >> 8) * kGlyphSide + (x >> 8);
      const int fx = x & 255;
      const int fy = y & 255;
      const int top = corner[0] * (256 - fx) + corner[1] * fx;
      const int bottom = corner[kGlyphSide] * (256 - fx) + corner[kGlyphSide + 1] * fx;
      ink[pixel] = static_cast<std::uint8_t>((top * (256 - fy) + bottom * fy) >> 16);
    }
  }
}

}  // namespace shoal
