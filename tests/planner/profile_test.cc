#include "planner/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "store/error.h"
#include "tests/planner/small_run.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::HasSubstr;

class ProfileTest : public testing::Test {
 protected:
  std::string refusal(Asked asked, const RunDescription& run) const {
    try {
      find_profile(file_, asked, run);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      return error.what();
    }
    return "";
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "profile.toml";
};

TEST_F(ProfileTest, ComesBackAsItWasWritten) {
  const Profile profile = small_profile();
  profile.write(file_);
  const Profile read = Profile::read(file_);
  EXPECT_EQ(read.model, profile.model);
  EXPECT_EQ(read.batch, profile.batch);
  EXPECT_EQ(read.public_record_bytes, profile.public_record_bytes);
  EXPECT_DOUBLE_EQ(read.step_seconds, profile.step_seconds);
  EXPECT_DOUBLE_EQ(read.store_cpu_seconds_per_byte, profile.store_cpu_seconds_per_byte);
  EXPECT_DOUBLE_EQ(read.mapped_bytes_per_second, profile.mapped_bytes_per_second);
  EXPECT_DOUBLE_EQ(read.get_bytes_per_second, profile.get_bytes_per_second);
  EXPECT_DOUBLE_EQ(read.ranks_slowdown, profile.ranks_slowdown);
  EXPECT_DOUBLE_EQ(read.meeting_seconds, profile.meeting_seconds);
  EXPECT_DOUBLE_EQ(read.request_cpu_seconds, profile.request_cpu_seconds);
  EXPECT_EQ(read.difference(small_run(8, 1)), "");
}

TEST_F(ProfileTest, OfAnotherModelIsRefusedWhenAskedForAndLeftAloneOtherwise) {
  small_profile().write(file_);
  RunDescription run = small_run(8, 1);
  run.model = "large";
  EXPECT_THAT(refusal(Asked::kYes, run),
              testing::AllOf(HasSubstr("small"), HasSubstr("large"), HasSubstr("calibrate")));
  const FoundProfile found = find_profile(file_, Asked::kNo, run);
  EXPECT_FALSE(found.profile);
  EXPECT_THAT(found.note, HasSubstr("small"));
}

TEST_F(ProfileTest, OfAnotherBatchOptimizerOrRecordDiffersToo) {
  const Profile profile = small_profile();
  RunDescription run = small_run(8, 1);
  run.batch = 9;
  EXPECT_THAT(profile.difference(run), HasSubstr("batch"));
  run = small_run(8, 1);
  run.optimizer = "adam";
  EXPECT_THAT(profile.difference(run), HasSubstr("adam"));
  run = small_run(8, 1);
  run.store.layout = StateLayout({{"weights", DType::kFloat32, {9000}, Part::kPublic}});
  EXPECT_THAT(profile.difference(run), HasSubstr("record"));
}

TEST_F(ProfileTest, AFileThatIsNoneIsRefused) {
  EXPECT_THAT(refusal(Asked::kYes, small_run(8, 1)), HasSubstr("no such file"));
  EXPECT_FALSE(find_profile(file_, Asked::kNo, small_run(8, 1)).profile);
  std::ofstream(file_) << "model = \"small\"\n";
  EXPECT_THAT(refusal(Asked::kNo, small_run(8, 1)), HasSubstr("optimizer"));
  const auto with = [&](const std::string& key, const std::string& value) {
    small_profile().write(file_);
    std::ifstream in(file_);
    std::string text;
    for (std::string line; std::getline(in, line);) {
      text += (line.starts_with(key + " ") ? key + " = " + value : line) + "\n";
    }
    std::ofstream(file_) << text;
    return refusal(Asked::kYes, small_run(8, 1));
  };
  EXPECT_THAT(with("step-seconds", "\"soon\""), HasSubstr("line 10: step-seconds is a text; it must be a number"));
  EXPECT_THAT(with("step-seconds", "-1"), HasSubstr("line 10: step-seconds cannot be -1"));
  EXPECT_THAT(with("step-seconds", "inf"), HasSubstr("line 10: step-seconds cannot be inf"));
  EXPECT_THAT(with("read-bytes-per-second", "nan"), HasSubstr("read-bytes-per-second cannot be nan"));
  EXPECT_THAT(with("threads", "0"), HasSubstr("threads cannot be 0"));
  EXPECT_EQ(with("node-seconds", "0"), "") << "too short to be measured";
  EXPECT_THAT(with("batch", "0.5"), HasSubstr("line 5: batch cannot be 0.5"));
  EXPECT_THAT(with("model", "5"), HasSubstr("line 2: model is a whole number; it must be a text"));
  EXPECT_THAT(with("batch", "1\nbatch = 2"), HasSubstr("line 6: "));
}

}  // namespace
}  // namespace shoal
