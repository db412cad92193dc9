#include "trainer/cifar_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "store/error.h"

namespace shoal {
namespace {

std::filesystem::path find_file(const std::filesystem::path& directory, const std::string& name) {
  for (const std::filesystem::path& folder : {directory, directory / "cifar-10-batches-bin"}) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  throw Error(
      fmt::format("{}: {}; expected there, or in cifar-10-batches-bin/ there: data_batch_1.bin to "
                  "data_batch_5.bin and test_batch.bin (the binary version of CIFAR-10)",
                  directory.string(),
                  std::filesystem::is_directory(directory) ? fmt::format("{} is missing", name) : "no such directory"));
}

void append(const std::filesystem::path& path, LabelledImages& images) {
  const std::size_t pixels = kCifarShape.pixels();
  const std::size_t record = 1 + pixels;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw Error(fmt::format("reading {}: {}", path.string(), error.message()));
  if (size == 0 || size % record != 0) {
    throw Error(
        fmt::format("{} is {} bytes long, which is not a whole number of {}-byte records (10,000 in the "
                    "original: {} bytes); it is cut short or another file, fetch it again",
                    path.string(), size, record, 10'000 * record));
  }

  std::ifstream file(path, std::ios::binary);
  const std::size_t before = images.labels.size();
  const auto count = static_cast<std::size_t>(size / record);
  images.labels.resize(before + count);
  images.pixels.resize((before + count) * pixels);
  for (std::size_t i = 0; i < count; ++i) {
    char label = 0;
    char* const image = reinterpret_cast<char*>(images.pixels.data() + (before + i) * pixels);
    if (!file.get(label) || !file.read(image, static_cast<std::streamsize>(pixels))) {
      throw_errno(fmt::format("reading record {} of {}", i, path.string()), errno);
    }
    images.labels[before + i] = static_cast<std::uint8_t>(label);
    if (images.labels[before + i] >= kCifarClasses) {
      throw Error(
          fmt::format("{}: the label of record {} is {}; expected 0 to {} (is it the binary version of "
                      "CIFAR-10?)",
                      path.string(), i, images.labels[before + i], kCifarClasses - 1));
    }
  }
}

}  // namespace

LabelledImages read_cifar10(const std::filesystem::path& directory, Split split) {
  std::vector<std::filesystem::path> paths;
  if (split == Split::kTest) {
    paths.push_back(find_file(directory, "test_batch.bin"));
  } else {
    for (int batch = 1; batch <= 5; ++batch) {
      paths.push_back(find_file(directory, fmt::format("data_batch_{}.bin", batch)));
    }
  }
  LabelledImages images;
  images.shape = kCifarShape;
  // At once: growing file by file would end up with half as much again.
  std::uintmax_t bytes = 0;
  for (const std::filesystem::path& path : paths) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (!error) bytes += size;
  }
  const auto count = static_cast<std::size_t>(bytes / (1 + kCifarShape.pixels()));
  images.labels.reserve(count);
  images.pixels.reserve(count * kCifarShape.pixels());
  for (const std::filesystem::path& path : paths) append(path, images);
  return images;
}

}  // namespace shoal
