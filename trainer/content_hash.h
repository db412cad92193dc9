// Hashes of what a run computes with, where its settings only name it: files may change behind their names.
#pragma once

#include <map>
#include <string>

#include "trainer/experiment.h"
#include "trainer/share.h"

namespace shoal {

// By the setting that names it: the network's edges ("graph"), the images and labels ("data"), the file of a script
// model ("model"). About 20 ms for MNIST.
std::map<std::string, std::string> content_hashes(const Experiment& experiment);

// Which node is which rank's; empty for a share of everything.
std::string owners_hash(const Share& share, NodeId nodes);

}  // namespace shoal
