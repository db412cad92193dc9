#include "bench/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/engine_kinds.h"
#include "store/error.h"

namespace shoal::bench {
namespace {

struct EngineKind {
  std::string_view name;
  std::unique_ptr<Engine> (*make)(const EngineOptions&);
  bool shoal;
  double space;  // times the state, at the worst
};

constexpr double kShoalSpace = 2.0;  // private slots in place, two generations of public ones, and slack
constexpr double kPeerSpace = 1.6;   // the same without the slack

constexpr std::array kKinds = {
    EngineKind{"shoal", [](const EngineOptions& o) { return make_shoal_engine(o, IoEngine::kAuto); }, true,
               kShoalSpace},
    EngineKind{"shoal-posix", [](const EngineOptions& o) { return make_shoal_engine(o, IoEngine::kPosix); }, true,
               kShoalSpace},
    EngineKind{"shoal-mapped", [](const EngineOptions& o) { return make_shoal_engine(o, IoEngine::kMapped); }, true,
               kShoalSpace},
    EngineKind{"rocksdb", make_rocksdb_engine, false, 4.0},  // obsolete versions wait for compaction
    EngineKind{"mmap", make_mmap_engine, false, kPeerSpace},
    EngineKind{"mmap-advised", make_mmap_advised_engine, false, kPeerSpace},
    EngineKind{"files", make_files_engine, false, kPeerSpace},
};

const EngineKind* find(std::string_view name) {
  const auto* kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.name == name; });
  return kind == kKinds.end() ? nullptr : kind;
}

const EngineKind& get(std::string_view name) {
  const EngineKind* kind = find(name);
  if (kind == nullptr) {
    throw Error(fmt::format("there is no engine '{}'; choose from {}", name, engine_choices()), ExitCode::kUsage);
  }
  return *kind;
}

}  // namespace

void Engine::checkpoint() { SHOAL_CHECK(supports(Verb::kCheckpoint)); }
void Engine::restore() { SHOAL_CHECK(supports(Verb::kRestore)); }
void Engine::demote(std::span<const NodeId> /*nodes*/) { SHOAL_CHECK(supports(Verb::kDemote)); }
void Engine::promote(std::span<const NodeId> /*nodes*/) { SHOAL_CHECK(supports(Verb::kPromote)); }
void Engine::verify() { SHOAL_CHECK(supports(Verb::kVerify)); }
nlohmann::json Engine::facts() const { return nlohmann::json::object(); }

std::unique_ptr<Engine> make_engine(std::string_view name, const EngineOptions& options) {
  return get(name).make(options);
}

std::uint64_t disk_bytes_needed(std::string_view name, const EngineOptions& options, std::span<const Verb> verbs) {
  const EngineKind& kind = get(name);
  double space = kind.space;
  // A checkpoint keeps its own versions until the next one; a demoted record is in two places for a moment.
  const bool keeps_more = std::any_of(verbs.begin(), verbs.end(), [](Verb verb) { return !is_round(verb); });
  if (kind.shoal && keeps_more) space += 1.5;
  const auto state = static_cast<double>(options.layout.state_bytes()) * options.nodes;
  return static_cast<std::uint64_t>(state * space) + (std::uint64_t{64} << 20);
}

bool is_engine(std::string_view name) { return find(name) != nullptr; }
bool is_shoal(std::string_view name) { return get(name).shoal; }

std::string engine_choices() {
  std::string list;
  for (const EngineKind& kind : kKinds) {
    if (!list.empty()) list += ", ";
    list += kind.name;
  }
  return list;
}

}  // namespace shoal::bench
