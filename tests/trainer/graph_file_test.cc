#include "trainer/graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GraphFile : public testing::Test {
 protected:
  NamedGraph read(const std::string& text) {
    std::ofstream(path(), std::ios::binary) << text;
    return read_graph_file(path());
  }

  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(path()));
      return error.what();
    }
    return "(was accepted)";
  }

  std::string path() const { return (directory_.path() / "graph.txt").string(); }

  static std::vector<NodeId> row(const NamedGraph& named, NodeId node) {
    return {named.graph.neighbours(node).begin(), named.graph.neighbours(node).end()};
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(GraphFile, ReadsASnapFile) {
  const NamedGraph named = read("# Undirected graph: a.txt\n# FromNodeId\tToNodeId\n10\t9\n9\t100\n100\t9\n");
  EXPECT_THAT(named.names, ElementsAre("9", "10", "100"));
  EXPECT_EQ(named.graph.edges(), 2u);
  EXPECT_THAT(row(named, 0), ElementsAre(1, 2));
  EXPECT_EQ(named.note, "");
}

TEST_F(GraphFile, NumbersOtherNamesInOrderOfAppearance) {
  const NamedGraph named = read("zoe adam 0.5 extra\nadam 12\n\n  12 zoe\n");
  EXPECT_THAT(named.names, ElementsAre("zoe", "adam", "12"));
  EXPECT_EQ(named.graph.edges(), 3u);
}

TEST_F(GraphFile, ReadsCommasSemicolonsCarriageReturnsAndAByteOrderMark) {
  const NamedGraph named = read(
      "\xEF\xBB\xBF"
      "1,2,0.5\r\n2;3\r\n");
  EXPECT_THAT(named.names, ElementsAre("1", "2", "3"));
  EXPECT_EQ(named.graph.edges(), 2u);
}

TEST_F(GraphFile, ReadsMatrixMarketAndSkipsItsSizeLine) {
  const NamedGraph named =
      read("%%MatrixMarket matrix coordinate real symmetric\n% comment\n4 4 4\n2 1 0.5\n3 1 1\n3 2 1\n4 3 -2e3\n");
  EXPECT_THAT(named.names, ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(row(named, 2), ElementsAre(0, 1, 3));
}

TEST_F(GraphFile, TakesAFirstLineThatFitsTheRestForItsSize) {
  const NamedGraph named = read("4 5\n1 2\n1 3\n1 4\n2 3\n3 4\n");
  EXPECT_EQ(named.graph.nodes(), 4u);
  EXPECT_EQ(named.graph.edges(), 5u);
  EXPECT_EQ(named.note, "line 1 was taken for the size of the graph");
}

TEST_F(GraphFile, TakesAFirstLineThatDoesNotFitForAnEdge) {
  EXPECT_EQ(read("4 6\n1 2\n1 3\n1 4\n2 6\n3 4\n").graph.nodes(), 5u) << "another number of lines";
  EXPECT_EQ(read("5 5\n1 2\n1 3\n1 4\n2 3\n3 4\n").graph.nodes(), 4u) << "another number of nodes";
}

TEST_F(GraphFile, KeepsTheLargestComponentAndSaysSo) {
  const NamedGraph named = read("1 2\n7 8\n8 9\n9 7\n3 4\n5 5\n");
  EXPECT_THAT(named.names, ElementsAre("7", "8", "9"));
  EXPECT_EQ(named.graph.edges(), 3u);
  EXPECT_EQ(named.note, "largest component: 3 of 8 nodes");
  EXPECT_THAT(read("5 6\n1 2\n").names, ElementsAre("5", "6")) << "of equals, the one named first";
}

TEST_F(GraphFile, NamesTheLineThatIsWrong) {
  EXPECT_THAT(refusal("1 2\n# fine\n3\n"), HasSubstr("line 3: two node names are expected, not '3'"));
  EXPECT_THAT(refusal(std::string("1 2\n1\0 3\n", 9)), HasSubstr("line 2: this is not text"));
  EXPECT_THAT(refusal("\x1f\x8b\x08\x00"), HasSubstr("line 1: the file is compressed"));
  const std::string banner = "%%MatrixMarket matrix coordinate pattern general\n";
  EXPECT_THAT(refusal(banner + "3 3 1\n1 4\n"), HasSubstr("line 3: '4' is not a row from 1 to 3"));
  EXPECT_THAT(refusal(banner + "3 3 1\na 2\n"), HasSubstr("line 3: 'a' is not a row"));
  EXPECT_THAT(refusal(banner + "3 2 1\n1 2\n"), HasSubstr("line 2: a size line is expected"));
  EXPECT_THAT(refusal(banner + "3 3 5\n1 2\n"), HasSubstr("line 2: 5 entries are announced, but 1 follow"));
  EXPECT_THAT(refusal("%%MatrixMarket matrix array real general\n3 3\n"), HasSubstr("line 1: only Matrix Market"));
}

TEST_F(GraphFile, RefusesFilesWithoutEdges) {
  EXPECT_THAT(refusal(""), HasSubstr("no edges"));
  EXPECT_THAT(refusal("# only words\n\n"), HasSubstr("no edges"));
  EXPECT_THAT(refusal("%%MatrixMarket matrix coordinate pattern general\n"), HasSubstr("size line"));
}

TEST_F(GraphFile, SaysWhyItCannotBeOpened) {
  for (const std::string& bad : {path() + ".missing", std::filesystem::path(path()).parent_path().string()}) {
    try {
      read_graph_file(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(bad), HasSubstr("irectory")));
    }
  }
}

TEST_F(GraphFile, AgreesWithTheNodesAskedForOrSaysHowManyThereAre) {
  read("1 2\n2 3\n8 9\n");
  EXPECT_EQ(make_graph("file:" + path(), 0, 1).graph.nodes(), 3u);
  EXPECT_EQ(make_graph("file:" + path(), 3, 1).graph.nodes(), 3u);
  try {
    make_graph("file:" + path(), 64, 1);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("has 3 nodes"), HasSubstr("3 of 5"), HasSubstr("not 64")));
  }
}

}  // namespace
}  // namespace shoal
