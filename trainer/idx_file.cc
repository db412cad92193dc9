#include "trainer/idx_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <string>

#include "store/error.h"

namespace shoal {
namespace {

constexpr std::uint32_t kImageMagic = 0x803;
constexpr std::uint32_t kLabelMagic = 0x801;

std::filesystem::path find_file(const std::filesystem::path& directory, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path path = directory / (name + ending);
    if (std::filesystem::exists(path)) return path;
  }
  throw Error(
      fmt::format("{}: {}; expected there, plain or with .gz: train-images-idx3-ubyte, "
                  "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte",
                  directory.string(),
                  std::filesystem::is_directory(directory) ? fmt::format("neither {0} nor {0}.gz is there", name)
                                                           : "no such directory"));
}

// zlib reads a file that is not gzip as it is.
class IdxReader {
 public:
  explicit IdxReader(std::filesystem::path path) : path_(std::move(path)), file_(::gzopen(path_.c_str(), "rb")) {
    if (!file_) throw_errno(fmt::format("opening {}", path_.string()), errno);
    ::gzbuffer(file_.get(), 256 * 1024);
  }

  std::uint32_t number(const char* what) {
    std::array<std::uint8_t, 4> bytes{};
    read(bytes, what);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void expect_magic(std::uint32_t expected, const char* what) {
    const std::uint32_t magic = number("the magic number");
    if (magic != expected) {
      throw Error(fmt::format("{} starts with 0x{:08x}, and an IDX file of {} with 0x{:08x}; is it another file?",
                              path_.string(), magic, what, expected));
    }
  }

  void read(std::span<std::uint8_t> out, const char* what) {
    std::size_t done = 0;
    while (done < out.size()) {
      const auto want = static_cast<unsigned>(std::min<std::size_t>(out.size() - done, 1 << 30));
      const int got = ::gzread(file_.get(), out.data() + done, want);
      if (got < 0) fail();
      if (got == 0) {
        throw Error(fmt::format("{} is cut short: it ends {} bytes into {}, which should be {} bytes; fetch it again",
                                path_.string(), done, what, out.size()));
      }
      done += static_cast<std::size_t>(got);
    }
  }

  // Also makes zlib compare its checksum.
  void expect_end(std::size_t held) {
    std::uint8_t more = 0;
    const int got = ::gzread(file_.get(), &more, 1);
    if (got < 0) fail();
    if (got > 0) {
      throw Error(fmt::format("{} goes on after the {} bytes of data that its header announces; fetch it again",
                              path_.string(), held));
    }
    int status = Z_OK;
    ::gzerror(file_.get(), &status);
    if (status != Z_OK) fail();
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose(file); }
  };

  [[noreturn]] void fail() {
    int status = Z_OK;
    const std::string text = ::gzerror(file_.get(), &status);
    if (status == Z_ERRNO) throw_errno(fmt::format("reading {}", path_.string()), errno);
    throw Error(fmt::format("{} is damaged ({}); fetch it again", path_.string(), text));
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace

LabelledImages read_mnist(const std::filesystem::path& directory, Split split) {
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  IdxReader images(find_file(directory, prefix + "-images-idx3-ubyte"));
  images.expect_magic(kImageMagic, "images");
  const std::uint32_t count = images.number("the number of images");
  const std::uint32_t height = images.number("the height");
  const std::uint32_t width = images.number("the width");
  if (height != kMnistShape.height || width != kMnistShape.width || count == 0) {
    throw Error(fmt::format("{} holds {} images of {} x {} pixels; expected at least one of {} x {}",
                            images.path().string(), count, height, width, kMnistShape.height, kMnistShape.width));
  }

  // Labels first: they are small, and a wrong count in a damaged image header is found before memory is taken for it.
  IdxReader labels(find_file(directory, prefix + "-labels-idx1-ubyte"));
  labels.expect_magic(kLabelMagic, "labels");
  if (const std::uint32_t other = labels.number("the number of labels"); other != count) {
    throw Error(fmt::format("{} holds {} labels, but {} holds {} images; the two belong to different sets",
                            labels.path().string(), other, images.path().string(), count));
  }

  LabelledImages result;
  result.shape = kMnistShape;
  result.labels.resize(count);
  labels.read(result.labels, "the labels");
  labels.expect_end(result.labels.size());
  for (std::size_t i = 0; i < result.labels.size(); ++i) {
    if (result.labels[i] >= kMnistClasses) {
      throw Error(fmt::format("{}: label {} is {}; expected 0 to {}", labels.path().string(), i, result.labels[i],
                              kMnistClasses - 1));
    }
  }
  result.pixels.resize(count * kMnistShape.pixels());
  images.read(result.pixels, "the pixels");
  images.expect_end(result.pixels.size());
  return result;
}

}  // namespace shoal
