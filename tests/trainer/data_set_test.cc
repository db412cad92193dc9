#include "trainer/data_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "store/error.h"
#include "tests/store/temporary_directory.h"
#include "trainer/synthetic_data.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What opening `spec` says when it fails.
std::string refusal(const std::string& spec, ExitCode expected) {
  try {
    open_data_set(spec, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << spec << " was opened";
  return "";
}

void write_plain(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void write_gz(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
  EXPECT_EQ(::gzclose(file), Z_OK);
}

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 255);
  return bytes;
}

std::string idx_images(std::uint32_t count) {
  std::string bytes = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
  for (std::uint32_t i = 0; i < count * 784; ++i) bytes += static_cast<char>(i * 31 % 251);
  return bytes;
}

std::string idx_labels(std::uint32_t count) {
  std::string bytes = big_endian(0x801) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 3 % 10);
  return bytes;
}

class MnistTest : public testing::Test {
 protected:
  MnistTest() {
    write_plain(path("train-images-idx3-ubyte"), idx_images(12));
    write_plain(path("train-labels-idx1-ubyte"), idx_labels(12));
    write_plain(path("t10k-images-idx3-ubyte"), idx_images(5));
    write_plain(path("t10k-labels-idx1-ubyte"), idx_labels(5));
  }
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  std::string spec() const { return "mnist:" + directory_.path().string(); }

  TemporaryDirectory directory_;
};

void expect_the_written_images(const DataSet& data) {
  EXPECT_EQ(data.shape(), (ImageShape{1, 28, 28}));
  EXPECT_EQ(data.classes(), 10u);
  ASSERT_EQ(data.size(Split::kTrain), 12u);
  ASSERT_EQ(data.size(Split::kTest), 5u);
  for (const Split split : {Split::kTrain, Split::kTest}) {
    for (std::uint32_t i = 0; i < data.size(split); ++i) {
      EXPECT_EQ(data.label(split, i), i * 3 % 10);
      const auto image = data.image(split, i);
      ASSERT_EQ(image.size(), 784u);
      for (std::uint32_t p = 0; p < 784; ++p) ASSERT_EQ(image[p], (i * 784 + p) * 31 % 251);
    }
  }
}

TEST_F(MnistTest, ReadsPlainFiles) { expect_the_written_images(*open_data_set(spec(), 1)); }

TEST_F(MnistTest, ReadsGzipFilesAndMixtures) {
  std::filesystem::remove(path("train-images-idx3-ubyte"));
  write_gz(path("train-images-idx3-ubyte.gz"), idx_images(12));
  std::filesystem::remove(path("t10k-labels-idx1-ubyte"));
  write_gz(path("t10k-labels-idx1-ubyte.gz"), idx_labels(5));
  expect_the_written_images(*open_data_set(spec(), 1));
}

TEST_F(MnistTest, TakesMeanAndDeviationFromTheTrainingImages) {
  std::string bytes = idx_images(1).substr(0, 16);
  for (int i = 0; i < 12 * 784; ++i) bytes += static_cast<char>(i % 2 == 0 ? 0 : 255);
  bytes.replace(4, 4, big_endian(12));
  write_plain(path("train-images-idx3-ubyte"), bytes);
  const auto data = open_data_set(spec(), 1);
  ASSERT_EQ(data->mean().size(), 1u);
  EXPECT_FLOAT_EQ(data->mean()[0], 0.5F);
  EXPECT_FLOAT_EQ(data->deviation()[0], 0.5F);
}

TEST_F(MnistTest, NamesTheMissingFile) {
  std::filesystem::remove(path("t10k-images-idx3-ubyte"));
  EXPECT_THAT(refusal(spec(), ExitCode::kFailure),
              AllOf(HasSubstr(directory_.path().string()), HasSubstr("t10k-images-idx3-ubyte.gz")));
}

TEST_F(MnistTest, ListsTheFourFilesWhenTheDirectoryIsMissing) {
  EXPECT_THAT(refusal(spec() + "/nowhere", ExitCode::kFailure),
              AllOf(HasSubstr("/nowhere"), HasSubstr("no such directory"), HasSubstr("train-images-idx3-ubyte"),
                    HasSubstr("train-labels-idx1-ubyte"), HasSubstr("t10k-images-idx3-ubyte"),
                    HasSubstr("t10k-labels-idx1-ubyte")));
}

struct Damage {
  const char* name;
  std::function<std::string(std::string)> apply;  // to the plain bytes of the training images
  const char* message;
};

TEST_F(MnistTest, SaysWhatIsWrongWithADamagedFile) {
  const std::array<Damage, 5> damages = {{
      {"cut in the pixels", [](std::string b) { return b.substr(0, 16 + 784); }, "784 bytes into the pixels"},
      {"cut in the header", [](std::string b) { return b.substr(0, 6); }, "2 bytes into the number of images"},
      {"a wrong magic", [](std::string b) { return b.replace(0, 4, big_endian(0x801)); }, "0x00000803"},
      {"another size", [](std::string b) { return b.replace(8, 4, big_endian(32)); }, "32 x 28"},
      {"more bytes than announced", [](std::string b) { return b + "x"; }, "goes on after the 9408 bytes"},
  }};
  for (const Damage& damage : damages) {
    write_plain(path("train-images-idx3-ubyte"), damage.apply(idx_images(12)));
    EXPECT_THAT(refusal(spec(), ExitCode::kFailure),
                AllOf(HasSubstr(path("train-images-idx3-ubyte").string()), HasSubstr(damage.message)))
        << damage.name;
  }
}

TEST_F(MnistTest, NoticesAGzipFileThatWasCutOrChanged) {
  std::filesystem::remove(path("train-images-idx3-ubyte"));
  const auto file = path("train-images-idx3-ubyte.gz");
  write_gz(file, idx_images(12));
  const auto size = std::filesystem::file_size(file);
  // The last four bytes are the length, the four before them the checksum.
  for (const std::uintmax_t kept : {size - 1, size - 6, size / 2}) {
    std::filesystem::resize_file(file, kept);
    EXPECT_THAT(refusal(spec(), ExitCode::kFailure), HasSubstr(file.string())) << kept << " of " << size;
  }
  write_gz(file, idx_images(12));
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(size) - 6);
  stream.put('?');
  stream.close();
  EXPECT_THAT(refusal(spec(), ExitCode::kFailure), AllOf(HasSubstr(file.string()), HasSubstr("damaged")));
}

TEST_F(MnistTest, RefusesLabelsThatDoNotBelongToTheImages) {
  write_plain(path("train-labels-idx1-ubyte"), idx_labels(11));
  EXPECT_THAT(refusal(spec(), ExitCode::kFailure), AllOf(HasSubstr("11 labels"), HasSubstr("12 images")));
  write_plain(path("train-labels-idx1-ubyte"), idx_labels(12).replace(10, 1, "\x0a"));
  EXPECT_THAT(refusal(spec(), ExitCode::kFailure), AllOf(HasSubstr("label 2 is 10"), HasSubstr("0 to 9")));
}

class CifarTest : public testing::Test {
 protected:
  static std::string records(int first, int count) {
    std::string bytes;
    for (int i = first; i < first + count; ++i) {
      bytes += static_cast<char>(i % 10);
      for (int p = 0; p < 3072; ++p) bytes += static_cast<char>(i * 5 + p % 100);
    }
    return bytes;
  }
  void write_all(const std::filesystem::path& directory) const {
    for (int batch = 1; batch <= 5; ++batch) {
      write_plain(directory / ("data_batch_" + std::to_string(batch) + ".bin"), records(3 * (batch - 1), 3));
    }
    write_plain(directory / "test_batch.bin", records(15, 4));
  }
  std::string spec() const { return "cifar10:" + directory_.path().string(); }

  TemporaryDirectory directory_;
};

TEST_F(CifarTest, ReadsTheFiveBatchesInOrder) {
  write_all(directory_.path());
  const auto data = open_data_set(spec(), 1);
  EXPECT_EQ(data->shape(), (ImageShape{3, 32, 32}));
  ASSERT_EQ(data->size(Split::kTrain), 15u);
  ASSERT_EQ(data->size(Split::kTest), 4u);
  EXPECT_EQ(data->bytes(), 19 * 3073u) << "--ram pays for it";
  for (std::uint32_t i = 0; i < 15; ++i) {
    EXPECT_EQ(data->label(Split::kTrain, i), i % 10);
    EXPECT_EQ(data->image(Split::kTrain, i)[0], i * 5);
    EXPECT_EQ(data->image(Split::kTrain, i)[3071], i * 5 + 3071 % 100);
  }
  EXPECT_EQ(data->mean().size(), 3u);
  EXPECT_EQ(data->deviation().size(), 3u);
}

TEST_F(CifarTest, FindsTheFolderThatTheArchiveUnpacksTo) {
  std::filesystem::create_directory(directory_.path() / "cifar-10-batches-bin");
  write_all(directory_.path() / "cifar-10-batches-bin");
  EXPECT_EQ(open_data_set(spec(), 1)->size(Split::kTrain), 15u);
}

TEST_F(CifarTest, NamesWhatIsMissingCutOrNotALabel) {
  EXPECT_THAT(refusal(spec() + "/nowhere", ExitCode::kFailure),
              AllOf(HasSubstr("no such directory"), HasSubstr("data_batch_5.bin"), HasSubstr("test_batch.bin")));
  write_all(directory_.path());
  const auto third = directory_.path() / "data_batch_3.bin";
  std::filesystem::remove(third);
  EXPECT_THAT(refusal(spec(), ExitCode::kFailure), HasSubstr("data_batch_3.bin is missing"));
  write_plain(third, records(0, 3).substr(0, 5000));
  EXPECT_THAT(refusal(spec(), ExitCode::kFailure),
              AllOf(HasSubstr(third.string()), HasSubstr("5000 bytes"), HasSubstr("3073-byte")));
  write_plain(third, records(0, 3).replace(3073, 1, "\x63"));
  EXPECT_THAT(refusal(spec(), ExitCode::kFailure),
              AllOf(HasSubstr(third.string()), HasSubstr("record 1 is 99"), HasSubstr("0 to 9")));
}

TEST(DataSet, RefusesUnknownNamesAndListsTheKnown) {
  for (const std::string spec : {"", "mnst", "MNIST:x", "imagenet:/data"}) {
    EXPECT_THAT(refusal(spec, ExitCode::kUsage), AllOf(testing::StartsWith("--data " + spec + ": "),
                                                       HasSubstr("synthetic-mnist"), HasSubstr("cifar10:DIR")));
    EXPECT_THROW(data_set_shape(spec), Error);
  }
  EXPECT_THAT(refusal("mnist", ExitCode::kUsage), HasSubstr("mnist:DIR"));
  EXPECT_THAT(refusal("cifar10:", ExitCode::kUsage), HasSubstr("cifar10:DIR"));
  EXPECT_THAT(refusal("synthetic-mnist:x", ExitCode::kUsage), HasSubstr("takes no directory"));
}

TEST(DataSet, KnowsTheShapeWithoutReadingAnything) {
  EXPECT_EQ(data_set_shape("mnist:/nowhere").image, (ImageShape{1, 28, 28}));
  EXPECT_EQ(data_set_shape("cifar10:/nowhere").image, (ImageShape{3, 32, 32}));
  EXPECT_EQ(data_set_shape("synthetic-mnist").image, (ImageShape{1, 28, 28}));
  EXPECT_EQ(data_set_shape("synthetic-cifar10").classes, 10u);
}

using Generate = LabelledImages (*)(std::uint64_t, Split, std::uint32_t);

class SyntheticData : public testing::TestWithParam<Generate> {};

TEST_P(SyntheticData, IsTheSameForTheSameSeedAndNoOther) {
  const LabelledImages images = GetParam()(1, Split::kTrain, 200);
  EXPECT_EQ(images.pixels, GetParam()(1, Split::kTrain, 200).pixels);
  EXPECT_NE(images.pixels, GetParam()(2, Split::kTrain, 200).pixels);
  EXPECT_NE(images.pixels, GetParam()(1, Split::kTest, 200).pixels);
  // A longer set starts with the shorter one.
  const LabelledImages more = GetParam()(1, Split::kTrain, 300);
  EXPECT_TRUE(std::equal(images.pixels.begin(), images.pixels.end(), more.pixels.begin()));
}

TEST_P(SyntheticData, HasEveryClassEquallyOften) {
  const LabelledImages images = GetParam()(1, Split::kTest, 200);
  ASSERT_EQ(images.labels.size(), 200u);
  ASSERT_EQ(images.pixels.size(), 200 * images.shape.pixels());
  std::array<int, kSyntheticClasses> counts{};
  for (const std::uint8_t label : images.labels) ++counts.at(label);
  for (const int count : counts) EXPECT_EQ(count, 20);
}

// Without this no model could learn, and with the opposite one would not need to: a class is told by its images.
TEST_P(SyntheticData, ShowsImagesOfAClassThatAreMoreAlikeThanOthers) {
  const LabelledImages images = GetParam()(1, Split::kTrain, 4000);
  const std::size_t pixels = images.shape.pixels();
  std::vector<std::vector<double>> means(kSyntheticClasses, std::vector<double>(pixels));
  for (std::size_t i = 0; i < 3000; ++i) {
    for (std::size_t p = 0; p < pixels; ++p) means[images.labels[i]][p] += images.pixels[i * pixels + p] / 300.0;
  }
  int right = 0;
  for (std::size_t i = 3000; i < 4000; ++i) {
    std::vector<double> distances;
    for (const std::vector<double>& mean : means) {
      double distance = 0;
      for (std::size_t p = 0; p < pixels; ++p) {
        distance += (images.pixels[i * pixels + p] - mean[p]) * (images.pixels[i * pixels + p] - mean[p]);
      }
      distances.push_back(distance);
    }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += nearest == images.labels[i] ? 1 : 0;
  }
  EXPECT_GT(right, 150);  // 100 by chance
  EXPECT_LT(right, 800);
}

INSTANTIATE_TEST_SUITE_P(All, SyntheticData, testing::Values(&synthetic_digits, &synthetic_signs));

}  // namespace
}  // namespace shoal
