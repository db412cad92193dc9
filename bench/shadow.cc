#include "bench/shadow.h"

#include <fmt/format.h>

#include "store/error.h"

namespace shoal::bench {

Shadow::Shadow(const StateLayout& layout, NodeId nodes) {
  for (const Part part : kParts) {
    const std::size_t words = layout.payload_bytes(part) / sizeof(Word);
    words_[index(part)] = words;
    if (words == 0) continue;
    for (std::size_t i = 0; i < kSamples; ++i) positions_[index(part)][i] = i * (words - 1) / (kSamples - 1);
  }
  now_.published.resize(nodes);
  now_.kept.resize(nodes);
  next_.resize(nodes);
}

void Shadow::expect_created(NodeId node, std::uint64_t seed, const std::byte* next, const std::byte* private_state) {
  for (std::size_t i = 0; i < kSamples; ++i) {
    next_[node][i] =
        created(creation_key(seed, node, Part::kPublic), static_cast<Word>(positions_[index(Part::kPublic)][i]));
    now_.kept[node][i] =
        created(creation_key(seed, node, Part::kPrivate), static_cast<Word>(positions_[index(Part::kPrivate)][i]));
  }
  compare(node, Part::kPublic, next_[node], next);
  compare(node, Part::kPrivate, now_.kept[node], private_state);
  written_.store(true, std::memory_order_relaxed);
}

void Shadow::expect_changed(NodeId node, std::uint64_t seed, std::uint64_t round, std::span<const NodeId> reads,
                            const std::byte* next, const std::byte* private_state) {
  const Word public_key = change_key(seed, round, Part::kPublic);
  const Word private_key = change_key(seed, round, Part::kPrivate);
  Samples sum = now_.published[node];
  for (const NodeId read : reads) {
    for (std::size_t i = 0; i < kSamples; ++i) sum[i] += now_.published[read][i];
  }
  for (std::size_t i = 0; i < kSamples; ++i) {
    next_[node][i] = changed(sum[i], public_key);
    now_.kept[node][i] = changed(now_.kept[node][i], private_key);
  }
  compare(node, Part::kPublic, next_[node], next);
  compare(node, Part::kPrivate, now_.kept[node], private_state);
  written_.store(true, std::memory_order_relaxed);
}

void Shadow::expect_public(NodeId node, const std::byte* payload) const {
  compare(node, Part::kPublic, now_.published[node], payload);
}

void Shadow::expect_private(NodeId node, const std::byte* payload) const {
  compare(node, Part::kPrivate, now_.kept[node], payload);
}

void Shadow::compare(NodeId node, Part part, const Samples& expected, const std::byte* payload) const {
  if (words(part) == 0) return;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t position = positions_[index(part)][i];
    const Word found = word_at(payload, position);
    if (found != expected[i]) {
      throw Error(
          fmt::format("wrong contents: word {} of node {}'s {} record is {:08x}, and {:08x} is right. The "
                      "engine returned stale or damaged data; its figures are worth nothing",
                      position, node, name(part), found, expected[i]));
    }
  }
}

void Shadow::end_round() {
  if (written_.exchange(false)) now_.published.swap(next_);
}

void Shadow::remember() { remembered_ = now_; }

void Shadow::recall() { now_ = remembered_; }

std::uint64_t Shadow::hash() const {
  const auto bytes = [](const std::vector<Samples>& samples) {
    return reinterpret_cast<const std::byte*>(samples.data());
  };
  return bench::hash(bytes(now_.published), now_.published.size() * kSamples, 1) ^
         bench::hash(bytes(now_.kept), now_.kept.size() * kSamples, 2);
}

}  // namespace shoal::bench
