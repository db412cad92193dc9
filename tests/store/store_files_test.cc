#include "store/store_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "store/error.h"
#include "store/manifest.h"
#include "store/state_store.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class StoreFilesTest : public ::testing::Test {
 protected:
  StoreFilesTest() {
    options_.directory = directory_.path() / "store";
    options_.layout = layout_of(500, 500);
    options_.nodes = 10;
    options_.ram_bytes = StateStore::minimum_ram(options_);
  }

  static void write(const fs::path& file, const std::string& text = "not Shoal's") {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Of the whole test, relative to its folder; without folders.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory_.path())) {
      if (!entry.is_directory()) names.push_back(entry.path().lexically_relative(directory_.path()).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory directory_;
  StoreOptions options_;
};

TEST_F(StoreFilesTest, ANewStoreTakesOverNoFileThatIsNotAStores) {
  for (const char* name : {"public.slab", "private.slab", "slots.table", "cold/000001.sst", "cold/CURRENT"}) {
    SCOPED_TRACE(name);
    const fs::path file = options_.directory / name;
    write(file);
    EXPECT_THAT([&] { StateStore::create(options_); }, ThrowsMessage<Error>(HasSubstr(file.string())));
    EXPECT_THAT(files(), ElementsAre("store/" + std::string(name)));
    EXPECT_EQ(read(file), "not Shoal's");
    fs::remove_all(options_.directory);
  }
}

TEST_F(StoreFilesTest, OverwritingDeletesWhatHasAStoresNamesAndNothingElse) {
  write(options_.directory / "public.slab");
  write(options_.directory / "cold" / "000001.sst");
  write(options_.directory / "thesis.tex");
  write(options_.directory / "cold" / "letter.txt");
  options_.overwrite = true;
  StateStore::create(options_);
  EXPECT_NO_THROW(StateStore::open(options_));
  StateStore::remove(options_);
  EXPECT_THAT(files(), ElementsAre("store/cold/letter.txt", "store/thesis.tex"));
}

TEST_F(StoreFilesTest, ARemovedStoreLeavesNothingBehindNotEvenItsFolder) {
  StateStore::create(options_);
  StateStore::remove(options_);
  EXPECT_TRUE(fs::is_empty(directory_.path()));
  // And a link to where the cold tier is to be stays a link.
  const fs::path elsewhere = directory_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  fs::create_directory(options_.directory);
  fs::create_directory_symlink(elsewhere, options_.directory / "cold");
  StateStore::create(options_);
  EXPECT_FALSE(fs::is_empty(elsewhere));
  StateStore::remove(options_);
  EXPECT_TRUE(fs::is_empty(elsewhere));
  EXPECT_TRUE(fs::is_symlink(options_.directory / "cold"));
}

TEST_F(StoreFilesTest, AStoreThatCouldNotBeMadeLeavesNothingBehind) {
  options_.device_hook = [](std::unique_ptr<IoDevice>) -> std::unique_ptr<IoDevice> { throw Error("no device today"); };
  EXPECT_THAT([&] { StateStore::create(options_); }, ThrowsMessage<Error>(HasSubstr("no device today")));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(StoreFilesTest, AStoreIsKnownByItsId) {
  options_.id = 0xabcdef;
  StateStore::create(options_);
  EXPECT_EQ(store_id_in(options_.directory), 0xabcdefU);
  EXPECT_EQ(StateStore::open(options_)->id(), 0xabcdefU);
  options_.id = 1;
  EXPECT_THAT([&] { StateStore::open(options_); }, ThrowsMessage<Error>(HasSubstr("0000000000abcdef")));
  EXPECT_THAT([&] { StateStore::checkpoints(options_); }, ThrowsMessage<Error>(HasSubstr("0000000000abcdef")));
  EXPECT_THAT([&] { StateStore::remove(options_); }, ThrowsMessage<Error>(HasSubstr("0000000000abcdef")));
  EXPECT_EQ(store_id_in(options_.directory), 0xabcdefU);
  options_.id = 0xabcdef;
  StateStore::remove(options_);
  EXPECT_EQ(store_id_in(options_.directory), std::nullopt);
}

TEST_F(StoreFilesTest, HalfAStoreIsReplacedOrRemovedAndHasAnIdToo) {
  // As a kill leaves it, with its cold tier in another place than the next store's.
  const fs::path cold = directory_.path() / "there";
  const auto leave_half_a_store = [&] {
    fs::create_directories(options_.directory);
    mark_half_store({options_.directory, cold}, 7);
    write(options_.directory / "public.slab");
    write(cold / "000004.sst");
  };
  leave_half_a_store();
  EXPECT_EQ(store_id_in(options_.directory), 7U);
  options_.id = 8;
  EXPECT_THAT([&] { StateStore::remove(options_); }, ThrowsMessage<Error>(HasSubstr("0000000000000007")));
  options_.id = 7;
  StateStore::remove(options_);
  EXPECT_THAT(files(), IsEmpty());

  leave_half_a_store();
  options_.id = 0;
  StateStore::create(options_);
  EXPECT_NO_THROW(StateStore::open(options_));
  EXPECT_FALSE(fs::exists(cold / "000004.sst"));
  EXPECT_EQ(half_store_in(options_.directory), std::nullopt);
}

}  // namespace
}  // namespace shoal::testing
