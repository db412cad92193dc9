#include "trainer/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const nlohmann::json kSummary = {{"nodes", 8},
                                 {"model", "mlp:784-10"},
                                 {"parameters", 7850},
                                 {"algorithm", "dpsgd"},
                                 {"rounds", 1},
                                 {"accuracy_mean", 0.5},
                                 {"accuracy_mean_model", nullptr},
                                 {"node_steps_per_second", 10.0},
                                 {"node_steps", 8},
                                 {"training_seconds", 0.8},
                                 {"ram_budget_bytes", 1 << 20},
                                 {"peak_rss_bytes", 1 << 20},
                                 {"state_bytes_per_node", 4096},
                                 {"store_bytes", 0},
                                 {"bytes_read", 0},
                                 {"bytes_written", 0},
                                 {"state_hash", "0123"}};

std::string report_of(int rounds, double loss_step) {
  const TemporaryDirectory folder;
  std::ofstream metrics(folder.path() / "metrics.jsonl");
  for (int round = 0; round < rounds; ++round) {
    metrics << nlohmann::json{{"round", round},
                              {"loss", 2 + round * loss_step},
                              {"consensus_distance", 0.1},
                              {"node_steps_per_second", 10},
                              {"accuracy", {{"mean", 0.5}, {"min", 0.25}, {"mean_model", 0.75}}}}
            << '\n';
  }
  metrics.flush();
  return report_html(folder.path(), kSummary, GraphStatistics());
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

// The chart whose caption begins so.
std::string chart(const std::string& html, const std::string& caption) {
  const std::size_t begin = html.find("<figcaption>" + caption);
  EXPECT_NE(begin, std::string::npos) << caption;
  return html.substr(begin, html.find("</figure>", begin) - begin);
}

std::vector<std::string> round_ticks(const std::string& figure) {
  return matches(figure, "text-anchor='middle'>([0-9]+)<");
}

TEST(ReportHtml, ShowsARunOfOneRoundAsPointsWithNames) {
  const std::string html = report_of(1, 0);
  const std::string accuracy = chart(html, "Accuracy");
  EXPECT_THAT(round_ticks(accuracy), ElementsAre("0", "1"));
  EXPECT_EQ(matches(accuracy, "<(circle)").size(), 3U);
  EXPECT_THAT(matches(accuracy, "style='fill:#[0-9a-f]+'>([^<]+)<"),
              ElementsAre("nodes, mean", "nodes, least", "mean model"));
  const std::string loss = chart(html, "Training loss");
  EXPECT_THAT(matches(loss, "text-anchor='end'>([^<]+)<"), ElementsAre("1", "1.5", "2", "2.5", "3"));
  EXPECT_EQ(matches(loss, "<(circle)").size(), 1U);
}

TEST(ReportHtml, MarksWholeRoundsEachOnce) {
  EXPECT_THAT(round_ticks(chart(report_of(3, 0.1), "Training loss")), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(round_ticks(chart(report_of(7, 0.1), "Training loss")), ElementsAre("0", "2", "4", "6"));
  EXPECT_THAT(round_ticks(chart(report_of(300, 0.1), "Training loss")), ElementsAre("0", "75", "150", "225", "300"));
}

TEST(ReportHtml, TellsTheTicksOfAFlatCurveApart) {
  const auto ticks = matches(chart(report_of(3, 1e-5), "Training loss"), "text-anchor='end'>([^<]+)<");
  EXPECT_EQ(std::set<std::string>(ticks.begin(), ticks.end()).size(), 5U) << testing::PrintToString(ticks);
}

TEST(ReportHtml, SaysAtMostOfASpectralGapThatIsABound) {
  GraphStatistics network;
  network.connected = true;
  network.spectral_gap = 0.01;
  const TemporaryDirectory folder;
  EXPECT_THAT(report_html(folder.path(), kSummary, network), HasSubstr("spectral gap 0.01<"));
  network.spectral_gap_is_bound = true;
  EXPECT_THAT(report_html(folder.path(), kSummary, network), HasSubstr("spectral gap at most 0.01<"));
}

}  // namespace
}  // namespace shoal
