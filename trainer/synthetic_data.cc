#include "trainer/synthetic_data.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "trainer/glyph.h"
#include "trainer/random.h"

namespace shoal {
namespace {

using Strokes = std::array<std::string_view, kSyntheticClasses>;

constexpr Strokes kDigitStrokes = {
    "8242484D8DBDB8B282",                     // 0
    "5582 828D",                              // 1
    "454282B2B5B84D 4DBD",                    // 2
    "4282B2B577 77B7BABD8D4C",                // 3
    "A24A 4ACA A2AD",                         // 4
    "B252 5257 5786B6BABD7D4C",               // 5
    "A262484D8DBDBAB787574A",                 // 6
    "42B2 B27D",                              // 7
    "8252545787A7A4A282 87474A4D8DBDBAB787",  // 8
    "B5B88848454282B2B6BA9D",                 // 9
};

// Left-right symmetric, so that a flipped image keeps its label.
constexpr Strokes kSignStrokes = {
    "8344384C8DCCD8C483",   // ring
    "838D 38D8",            // plus
    "44CC C44C",            // saltire
    "833D 3DDD DD83",       // triangle
    "44C4 C4CC CC4C 4C44",  // square
    "34D4 848D",            // T
    "838E 8348 83C8",       // arrow
    "4488 C488 888D",       // Y
    "46C6 4BCB",            // equals
    "434D C3CD 48C8",       // H
};

enum class Kind : std::uint64_t { kDigits, kSigns };
enum class Use : std::uint64_t { kGlyphs, kTrain, kTest };

RandomStream stream_for(std::uint64_t seed, Kind kind, Use use, std::uint32_t index) {
  return RandomStream(seed, Purpose::kDataSet, index,
                      static_cast<std::uint64_t>(kind) << 8 | static_cast<std::uint64_t>(use));
}

int between(RandomStream& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint32_t>(high - low + 1)));
}
int within(RandomStream& random, int bound) { return between(random, -bound, bound); }
bool chance(RandomStream& random, std::uint32_t per_cent) { return random.below(100) < per_cent; }

// Several hands write each glyph: what a class has in common is not one picture.
class Alphabet {
 public:
  Alphabet(std::uint64_t seed, Kind kind, const Strokes& strokes, Pen thin, Pen thick) {
    for (std::uint32_t i = 0; i < kSyntheticClasses * kHands; ++i) {
      RandomStream random = stream_for(seed, kind, Use::kGlyphs, i);
      const Pen pen = {between(random, thin.radius, thick.radius), between(random, thin.wobble, thick.wobble)};
      glyphs_.push_back(draw_glyph(strokes[i / kHands], pen, random));
    }
  }

  const Glyph& pick(std::uint32_t label, RandomStream& random) const {
    return glyphs_[label * kHands + random.below(kHands)];
  }

 private:
  static constexpr std::uint32_t kHands = 12;
  std::vector<Glyph> glyphs_;
};

// How far from its prototype an image is. Shares are in per cent.
struct Difficulty {
  int shift = 0;    // pixels / 8
  int stretch = 0;  // of the size, 1/256
  int slant = 0;    // 1/256
  int bend = 0;     // pixels / 8, at a knot
  std::uint32_t ambiguous = 0;
  std::uint32_t occluded = 0;
  int patch = 0;  // side of the largest occluding rectangle
  int noise = 0;
};

// Chosen by training on it: SGD with momentum 0.9, batch 64, accuracy in per cent on test images.
//                                    step    100     200     500    1000
//   digits, LeNet-5, rate 0.05 (2 seeds)   72-82   88-91      94      95
//   digits, linear, rate 0.005                70      73      75      74
//   signs, LeNet-5, rate 0.05                 57      77      84      83
//   signs, linear, rate 0.005                 44      47      45      37
constexpr Difficulty kDigitDifficulty = {
    .shift = 26, .stretch = 52, .slant = 80, .bend = 12, .ambiguous = 3, .occluded = 25, .patch = 9, .noise = 48};
constexpr Difficulty kSignDifficulty = {
    .shift = 26, .stretch = 52, .slant = 70, .bend = 12, .ambiguous = 4, .occluded = 30, .patch = 12, .noise = 40};

// Draws the ink of one image after another; its buffers are reused.
class Painter {
 public:
  Painter(const Alphabet& alphabet, const Difficulty& difficulty, int side)
      : alphabet_(alphabet),
        difficulty_(difficulty),
        side_(side),
        bend_x_(area()),
        bend_y_(area()),
        ink_(area()),
        other_(area()) {}

  std::span<const std::uint8_t> ink(std::uint32_t label, RandomStream& random) {
    const int pixel = kGlyphSide * 256 / side_;
    const auto share = [pixel](int parts) { return pixel * parts / 256; };
    const Difficulty& d = difficulty_;
    const int size = 256 + within(random, d.stretch);
    const Placement placement = {share(size + within(random, d.stretch / 2)),
                                 share(within(random, d.slant)),
                                 share(within(random, d.slant)),
                                 share(size + within(random, d.stretch / 2)),
                                 within(random, d.shift) * pixel / 8,
                                 within(random, d.shift) * pixel / 8};
    fill_smoothly(random, d.bend * pixel / 8, side_, bend_x_);
    fill_smoothly(random, d.bend * pixel / 8, side_, bend_y_);
    place_glyph(alphabet_.pick(label, random), placement, bend_x_, bend_y_, side_, ink_);
    if (chance(random, d.ambiguous)) {
      // Two classes, each as visible as the other: half of these no model can get right.
      const std::uint32_t other = (label + 1 + random.below(kSyntheticClasses - 1)) % kSyntheticClasses;
      place_glyph(alphabet_.pick(other, random), placement, bend_x_, bend_y_, side_, other_);
      for (std::size_t i = 0; i < ink_.size(); ++i) ink_[i] = static_cast<std::uint8_t>((ink_[i] + other_[i] + 1) / 2);
    }
    return ink_;
  }

  // Covers a rectangle with one grey in each of the image's channels.
  void occlude(std::span<std::uint8_t> image, RandomStream& random) const {
    if (!chance(random, difficulty_.occluded)) return;
    const int width = between(random, difficulty_.patch / 3, difficulty_.patch);
    const int height = between(random, difficulty_.patch / 3, difficulty_.patch);
    const int left = between(random, 0, side_ - width);
    const int top = between(random, 0, side_ - height);
    for (std::size_t channel = 0; channel < image.size(); channel += area()) {
      const auto grey = static_cast<std::uint8_t>(random.below(256));
      for (int y = top; y < top + height; ++y) {
        std::fill_n(image.begin() + static_cast<std::ptrdiff_t>(channel) + y * side_ + left, width, grey);
      }
    }
  }

  // The difference of two uniform bytes, scaled: roughly a bell.
  void add_noise(std::span<std::uint8_t> image, RandomStream& random) const {
    const int strength = between(random, difficulty_.noise / 4, difficulty_.noise);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < image.size(); ++i) {
      bits = i % 2 == 0 ? random() : bits >> 16;
      const int bell = static_cast<int>(bits & 255) - static_cast<int>(bits >> 8 & 255);
      image[i] = static_cast<std::uint8_t>(std::clamp(image[i] + (bell * strength >> 7), 0, 255));
    }
  }

 private:
  std::size_t area() const { return static_cast<std::size_t>(side_ * side_); }

  const Alphabet& alphabet_;
  const Difficulty& difficulty_;
  int side_;
  std::vector<std::int32_t> bend_x_, bend_y_;
  std::vector<std::uint8_t> ink_, other_;
};

LabelledImages blank(ImageShape shape, std::uint32_t count) {
  LabelledImages images;
  images.shape = shape;
  images.pixels.resize(count * shape.pixels());
  images.labels.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) images.labels[i] = static_cast<std::uint8_t>(i % kSyntheticClasses);
  return images;
}

Use use_of(Split split) { return split == Split::kTrain ? Use::kTrain : Use::kTest; }

}  // namespace

LabelledImages synthetic_digits(std::uint64_t seed, Split split, std::uint32_t count) {
  const Alphabet alphabet(seed, Kind::kDigits, kDigitStrokes, {.radius = 28, .wobble = 24},
                          {.radius = 56, .wobble = 72});
  Painter painter(alphabet, kDigitDifficulty, static_cast<int>(kSyntheticDigitShape.width));
  LabelledImages images = blank(kSyntheticDigitShape, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    RandomStream random = stream_for(seed, Kind::kDigits, use_of(split), i);
    const std::span<std::uint8_t> image =
        std::span(images.pixels).subspan(i * images.shape.pixels(), images.shape.pixels());
    const std::span<const std::uint8_t> ink = painter.ink(images.labels[i], random);
    const int ground = between(random, 0, 60);
    const int contrast = between(random, 90, 255 - ground);
    for (std::size_t p = 0; p < image.size(); ++p)
      image[p] = static_cast<std::uint8_t>(ground + (contrast * ink[p] >> 8));
    painter.occlude(image, random);
    painter.add_noise(image, random);
  }
  return images;
}

LabelledImages synthetic_signs(std::uint64_t seed, Split split, std::uint32_t count) {
  const Alphabet alphabet(seed, Kind::kSigns, kSignStrokes, {.radius = 40, .wobble = 24}, {.radius = 80, .wobble = 64});
  const int side = static_cast<int>(kSyntheticSignShape.width);
  Painter painter(alphabet, kSignDifficulty, side);
  LabelledImages images = blank(kSyntheticSignShape, count);
  std::vector<std::int32_t> clutter(static_cast<std::size_t>(side * side));
  for (std::uint32_t i = 0; i < count; ++i) {
    RandomStream random = stream_for(seed, Kind::kSigns, use_of(split), i);
    const std::span<std::uint8_t> image =
        std::span(images.pixels).subspan(i * images.shape.pixels(), images.shape.pixels());
    const std::span<const std::uint8_t> ink = painter.ink(images.labels[i], random);
    // Colour is a hint, right half of the time: the first steps have something to find before shapes are learnt.
    const bool typical = chance(random, 50);
    std::uint32_t colour = 2 * images.labels[i] + 4u;
    for (std::size_t channel = 0; channel < images.shape.channels; ++channel, colour /= 3) {
      const int ground = between(random, 48, 208);
      const int level = static_cast<int>(colour % 3) * 96;
      const int paint = typical ? between(random, level, level + 63) : between(random, 0, 255);
      fill_smoothly(random, 48, side, clutter);
      const std::span<std::uint8_t> plane = image.subspan(channel * clutter.size(), clutter.size());
      for (std::size_t p = 0; p < plane.size(); ++p) {
        const int behind = ground + clutter[p];
        plane[p] = static_cast<std::uint8_t>(std::clamp(behind + ((paint - behind) * ink[p] >> 8), 0, 255));
      }
    }
    painter.occlude(image, random);
    painter.add_noise(image, random);
  }
  return images;
}

}  // namespace shoal
