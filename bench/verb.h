// What the benchmark can be asked to do, in the user's words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace shoal::bench {

enum class Verb : std::uint8_t {
  // Rounds: every node once, in id order.
  kFill,         // every record is made
  kStream,       // every record is read, changed in every byte, written
  kGossipRound,  // the same, with the public records of --degree neighbours mixed in
  kRandomRead,   // as many public records as there are nodes, each of a random node
  // What happens between rounds.
  kCheckpoint,
  kRestore,
  kDemote,   // a quarter of the nodes to the cold tier
  kPromote,  // the same nodes back
  kVerify,
  // Not for users: every record is read and hashed after all is done.
  kInspect,
};

inline constexpr std::array kUserVerbs = {Verb::kFill,       Verb::kStream,     Verb::kGossipRound,
                                          Verb::kRandomRead, Verb::kCheckpoint, Verb::kRestore,
                                          Verb::kDemote,     Verb::kPromote,    Verb::kVerify};

std::string_view name(Verb verb);
Verb parse_verb(std::string_view text);  // throws a usage Error that lists the choices
std::string verb_choices();              // "fill, stream, ..."

constexpr bool is_round(Verb verb) { return verb <= Verb::kRandomRead || verb == Verb::kInspect; }
constexpr bool changes_contents(Verb verb) { return verb <= Verb::kGossipRound; }

}  // namespace shoal::bench
