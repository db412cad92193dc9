// Edge lists as they are found: one edge a line, two node names and whatever follows (weights, times), ignored.
//
// - Names are any text without blanks; columns stand apart by blanks, tabs, commas or semicolons.
// - Lines that begin with # or % are comments (SNAP, KONECT). A %%MatrixMarket first line makes the first line of
//   numbers the size line, which is then checked against what follows. Without it, a first line "N M" is taken for a
//   size line exactly if M lines with N different names follow (Network Repository writes such files).
// - Direction, loops and repeated edges are dropped.
// - The largest component is kept (of equals, the one named first). Its nodes are numbered in numeric order if all
//   names are whole numbers, else in order of first appearance.
#pragma once

#include <string>

#include "trainer/graph.h"

namespace shoal {

// An Error names the path and the line.
NamedGraph read_graph_file(const std::string& path);

}  // namespace shoal
