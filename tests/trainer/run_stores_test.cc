#include "trainer/run_stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

const RunStores kStores{{{"/runs/a/store/rank-0-of-2", "", 0x12}, {"/nvme/1", "/disk/cold", 0xfedcba9876543210}},
                        {{"/runs/a/store", "/runs/a/cold", 0x34}}};

TEST(RunStores, ComeBackFromTheirText) {
  const RunStores parsed = RunStores::parse(kStores.text("/runs/a"), "/runs/a");
  EXPECT_EQ(parsed.current, kStores.current);
  EXPECT_EQ(parsed.obsolete, kStores.obsolete);
}

TEST(RunStores, GoWithTheFolderThatTheyAreIn) {
  const RunStores moved = RunStores::parse(kStores.text("/runs/a"), "/elsewhere/b");
  EXPECT_EQ(moved.current[0], (StorePlace{"/elsewhere/b/store/rank-0-of-2", "", 0x12}));
  EXPECT_EQ(moved.current[1], kStores.current[1]) << "these are not in it";
  EXPECT_EQ(moved.obsolete[0], (StorePlace{"/elsewhere/b/store", "/elsewhere/b/cold", 0x34}));
}

TEST(RunStores, FolderMayBeGivenFromTheCurrentOne) {
  const RunStores here{{{std::filesystem::absolute("run/store"), "", 1}}, {}};
  EXPECT_THAT(here.text("run"), testing::HasSubstr("\"store\""));
  EXPECT_THAT(here.text("run/"), testing::Not(testing::HasSubstr(std::filesystem::current_path().string())));
  EXPECT_EQ(RunStores::parse(here.text("run"), "run").current, here.current);
}

TEST(RunStores, KnowTheirStoresById) {
  EXPECT_TRUE(kStores.has(0x12));
  EXPECT_FALSE(kStores.has(0x34));
  EXPECT_TRUE(kStores.is_obsolete(kStores.obsolete[0]));
  EXPECT_FALSE(kStores.is_obsolete({"/runs/a/store", "/runs/a/cold", 0x35}));
  EXPECT_FALSE(kStores.is_obsolete(kStores.current[0]));
}

TEST(RunStores, OfAFolderWithoutThemAreNoneAndOfADamagedFileAnError) {
  const TemporaryDirectory folder;
  EXPECT_FALSE(RunStores::read(folder.path()).has_value());
  for (const char* text : {"", "[]", "{\"stores\": []}", "{\"stores\": [{\"store\": \"x\"}], \"obsolete\": []}",
                           "{\"stores\": [{\"store\": \"\", \"cold\": \"\", \"id\": \"?\"}], \"obsolete\": []}"}) {
    std::ofstream(folder.path() / RunStores::kFile) << text;
    EXPECT_THROW(static_cast<void>(RunStores::read(folder.path())), Error) << text;
  }
  std::ofstream(folder.path() / RunStores::kFile) << kStores.text(folder.path());
  EXPECT_EQ(RunStores::read(folder.path())->current, kStores.current);
}

}  // namespace
}  // namespace shoal
