#include "trainer/content_hash.h"

#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY  // the state on the stack
#include <xxhash.h>

#include <array>
#include <fstream>
#include <string_view>

namespace shoal {
namespace {

class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_, data, bytes); }
  template <typename Number>
  void add_number(Number number) {
    add(&number, sizeof(number));
  }
  std::string text() const { return fmt::format("{:016x}", XXH3_64bits_digest(&state_)); }

 private:
  XXH3_state_t state_;
};

std::string hash_of(const Graph& graph) {
  Hash hash;
  for (NodeId node = 0; node < graph.nodes(); ++node) {
    const auto neighbours = graph.neighbours(node);
    hash.add_number(graph.degree(node));
    hash.add(neighbours.data(), neighbours.size_bytes());
  }
  return hash.text();
}

std::string hash_of(const DataSet& data) {
  Hash hash;
  for (const Split split : {Split::kTrain, Split::kTest}) {
    hash.add_number(data.size(split));
    for (std::uint32_t index = 0; index < data.size(split); ++index) {
      const auto image = data.image(split, index);
      hash.add_number(data.label(split, index));
      hash.add(image.data(), image.size());
    }
  }
  return hash.text();
}

std::string hash_of_file(const std::string& path) {
  Hash hash;
  std::ifstream file(path, std::ios::binary);
  std::array<char, 1 << 16> bytes;
  while (file.read(bytes.data(), bytes.size()) || file.gcount() > 0) {
    hash.add(bytes.data(), static_cast<std::size_t>(file.gcount()));
  }
  return hash.text();
}

}  // namespace

std::map<std::string, std::string> content_hashes(const Experiment& experiment) {
  std::map<std::string, std::string> hashes = {{"graph", hash_of(experiment.graph())}};
  if (experiment.data) hashes["data"] = hash_of(*experiment.data);
  constexpr std::string_view kScript = "script:";
  const std::string& model = experiment.options.model;
  if (model.starts_with(kScript)) hashes["model"] = hash_of_file(model.substr(kScript.size()));
  return hashes;
}

std::string owners_hash(const Share& share, NodeId nodes) {
  if (share.whole()) return {};
  Hash hash;
  for (NodeId node = 0; node < nodes; ++node) hash.add_number(share.owner(node));
  return hash.text();
}

}  // namespace shoal
