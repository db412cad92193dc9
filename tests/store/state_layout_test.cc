#include "store/state_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "store/error.h"
#include "store/record.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                             DType::kInt32,   DType::kInt64,   DType::kUInt8};

std::vector<TensorSpec> random_tensors(std::mt19937& random) {
  std::vector<TensorSpec> tensors = {{"first", DType::kFloat32, {}, Part::kPublic}};
  const std::size_t count = 1 + random() % 12;
  for (std::size_t i = 1; i < count; ++i) {
    TensorSpec tensor{"layer" + std::to_string(i) + ".weight", kDTypes[random() % std::size(kDTypes)], {}, Part()};
    tensor.part = random() % 2 == 0 ? Part::kPublic : Part::kPrivate;
    for (std::size_t axes = random() % 4; axes > 0; --axes) tensor.shape.push_back(random() % 9);
    tensors.push_back(tensor);
  }
  return tensors;
}

// Of ResNet-like names, to be changed one by one.
std::vector<TensorSpec> some_tensors() {
  return {{"conv.weight", DType::kFloat32, {6, 1, 5, 5}, Part::kPublic},
          {"conv.bias", DType::kFloat32, {6}, Part::kPublic},
          {"momentum", DType::kFloat32, {156}, Part::kPrivate},
          {"steps", DType::kInt64, {}, Part::kPrivate}};
}

TEST(StateLayout, PlacesEveryTensorOnACacheLineBehindTheOnesBeforeIt) {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const std::vector<TensorSpec> tensors = random_tensors(random);
    const StateLayout layout(tensors);
    ASSERT_EQ(layout.tensors().size(), tensors.size());
    std::uint64_t end[kPartCount] = {0, 0};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorPlace& place = layout.tensors()[i];
      EXPECT_EQ(place.spec.name, tensors[i].name);
      EXPECT_EQ(place.offset % StateLayout::kTensorAlignment, 0u);
      EXPECT_GE(place.offset, end[index(tensors[i].part)]) << "it overlaps the tensor before it";
      std::uint64_t elements = 1;
      for (const std::int64_t extent : tensors[i].shape) elements *= static_cast<std::uint64_t>(extent);
      EXPECT_EQ(place.bytes, elements * bytes_of(tensors[i].dtype));
      end[index(tensors[i].part)] = place.offset + place.bytes;
    }
    for (const Part part : kParts) EXPECT_EQ(layout.payload_bytes(part), end[index(part)]);
  }
}

TEST(StateLayout, MakesRecordsOfWholeBlocksWithRoomForTheHeaderAndNoBlockTooMany) {
  for (const std::int64_t bytes : {1, 4031, 4032, 4033, 8128, 8129, 246824}) {
    const StateLayout layout({{"weights", DType::kUInt8, {bytes}, Part::kPublic}});
    const std::uint64_t record = layout.record_bytes(Part::kPublic);
    const std::uint64_t needed = sizeof(RecordHeader) + static_cast<std::uint64_t>(bytes);
    EXPECT_EQ(record % kBlockBytes, 0u);
    EXPECT_GE(record, needed);
    EXPECT_LT(record, needed + kBlockBytes);
    EXPECT_EQ(layout.state_bytes(), record + layout.record_bytes(Part::kPrivate));
  }
}

TEST(StateLayout, ComesBackEqualFromItsSerializedForm) {
  std::mt19937 random(2);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const StateLayout layout(random_tensors(random));
    const StateLayout parsed = StateLayout::parse(layout.serialize());
    EXPECT_EQ(layout.difference(parsed), std::nullopt);
    for (const Part part : kParts) EXPECT_EQ(parsed.payload_bytes(part), layout.payload_bytes(part));
  }
}

TEST(StateLayout, SaysWhichTensorDiffersFirst) {
  struct Change {
    std::function<void(std::vector<TensorSpec>&)> make;
    std::vector<std::string> named;
  };
  const std::vector<Change> changes = {
      {[](auto& tensors) { tensors[1].name = "conv.b"; }, {"tensor 1", "'conv.bias'", "'conv.b'"}},
      {[](auto& tensors) { tensors[0].dtype = DType::kBFloat16; }, {"tensor 0", "f32", "bf16"}},
      {[](auto& tensors) {
         tensors[0].shape = {6, 1, 25};
       },
       {"tensor 0", "[6, 1, 5, 5]", "[6, 1, 25]"}},
      {[](auto& tensors) { tensors[3].part = Part::kPublic; }, {"tensor 3", "'steps'", "private", "public"}},
      {[](auto& tensors) { std::swap(tensors[2], tensors[3]); }, {"tensor 2", "'momentum'", "'steps'"}},
      {[](auto& tensors) { tensors.pop_back(); }, {"4 tensors here and 3 there", "'steps'"}},
      {[](auto& tensors) {
         tensors.push_back({"clock", DType::kFloat64, {}, Part::kPrivate});
       },
       {"4 tensors here and 5 there", "'clock'"}},
  };
  const StateLayout layout(some_tensors());
  EXPECT_EQ(layout.difference(StateLayout(some_tensors())), std::nullopt);
  for (const Change& change : changes) {
    std::vector<TensorSpec> changed = some_tensors();
    change.make(changed);
    const auto difference = layout.difference(StateLayout(changed));
    ASSERT_TRUE(difference.has_value());
    for (const std::string& word : change.named) EXPECT_THAT(*difference, HasSubstr(word));
  }
}

TEST(StateLayout, FindsTensorsByNameAndNamesTheOneItDoesNotHave) {
  const StateLayout layout(some_tensors());
  EXPECT_EQ(layout.find("steps").offset, 640u);  // behind 156 floats
  EXPECT_EQ(layout.find("steps").bytes, 8u);
  EXPECT_THAT([&] { layout.find("velocity"); }, ThrowsMessage<Error>(HasSubstr("no tensor 'velocity'")));
}

TEST(StateLayout, RefusesWhatCannotBeARecord) {
  const auto making = [](const std::vector<TensorSpec>& tensors) { return [=] { StateLayout layout(tensors); }; };
  const TensorSpec weights{"weights", DType::kFloat32, {10}, Part::kPublic};
  EXPECT_THAT(making({}), ThrowsMessage<Error>(HasSubstr("at least one public byte")));
  EXPECT_THAT(making({{"momentum", DType::kFloat32, {10}, Part::kPrivate}}),
              ThrowsMessage<Error>(HasSubstr("at least one public byte")));
  EXPECT_THAT(making({{"weights", DType::kFloat32, {10, 0}, Part::kPublic}}),
              ThrowsMessage<Error>(HasSubstr("at least one public byte")));
  EXPECT_THAT(making({weights, {"weights", DType::kInt64, {}, Part::kPrivate}}),
              ThrowsMessage<Error>(HasSubstr("two tensors are named 'weights'")));
  EXPECT_THAT(making({weights, {"bias", DType::kFloat32, {4, -1}, Part::kPublic}}),
              ThrowsMessage<Error>(AllOf(HasSubstr("'bias'"), HasSubstr("negative"))));
  // The product of the extents would wrap around to 0.
  EXPECT_THAT(making({{"huge", DType::kFloat32, {1LL << 31, 1LL << 31, 4}, Part::kPublic}}),
              ThrowsMessage<Error>(AllOf(HasSubstr("'huge'"), HasSubstr("too large"))));
}

TEST(StateLayout, RefusesANameThatCannotBeWrittenDown) {
  const auto make_and_serialize = [] {
    StateLayout({{"weights \xff", DType::kFloat32, {10}, Part::kPublic}}).serialize();
  };
  EXPECT_THROW(make_and_serialize(), Error) << "JSON is UTF-8";
}

TEST(StateLayout, RefusesTextThatIsNoLayout) {
  const auto parsing = [](const std::string& text) { return [=] { StateLayout::parse(text); }; };
  const auto with = [](const std::string& dtype, const std::string& part, const std::string& offset) {
    return R"([{"name":"w","dtype":")" + dtype + R"(","shape":[2],"part":")" + part + R"(","offset":)" + offset + "}]";
  };
  EXPECT_NO_THROW(parsing(with("f32", "public", "0"))()) << "the other cases would show nothing";
  EXPECT_THAT(parsing(with("f31", "public", "0")), ThrowsMessage<Error>(HasSubstr("unknown dtype 'f31'")));
  EXPECT_THAT(parsing(with("f32", "secret", "0")), ThrowsMessage<Error>(HasSubstr("unknown part 'secret'")));
  EXPECT_THAT(parsing(with("f32", "public", "64")),
              ThrowsMessage<Error>(AllOf(HasSubstr("'w'"), HasSubstr("offset 64"))));
  for (const std::string text : {"", "[", "7", "{}", "[]", "[7]", R"([{"name":"w"}])"}) {
    EXPECT_THROW(parsing(text)(), Error) << text;
  }
}

TEST(DType, HasTheSizeOfItsElementsAndANameOfItsOwn) {
  const std::vector<std::size_t> bytes = {4, 8, 2, 2, 4, 8, 1};
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    EXPECT_EQ(bytes_of(kDTypes[i]), bytes[i]);
    EXPECT_TRUE(names.insert(name(kDTypes[i])).second) << name(kDTypes[i]);
  }
}

}  // namespace
}  // namespace shoal
