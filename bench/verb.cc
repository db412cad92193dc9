#include "bench/verb.h"

#include <fmt/format.h>

#include "store/error.h"

namespace shoal::bench {

std::string_view name(Verb verb) {
  switch (verb) {
    case Verb::kFill: return "fill";
    case Verb::kStream: return "stream";
    case Verb::kGossipRound: return "gossip-round";
    case Verb::kRandomRead: return "random-read";
    case Verb::kCheckpoint: return "checkpoint";
    case Verb::kRestore: return "restore";
    case Verb::kDemote: return "demote";
    case Verb::kPromote: return "promote";
    case Verb::kVerify: return "verify";
    case Verb::kInspect: return "inspect";
  }
  return "?";
}

Verb parse_verb(std::string_view text) {
  for (const Verb verb : kUserVerbs) {
    if (name(verb) == text) return verb;
  }
  throw Error(fmt::format("there is no workload '{}'; choose from {}", text, verb_choices()), ExitCode::kUsage);
}

std::string verb_choices() {
  std::string list;
  for (const Verb verb : kUserVerbs) {
    if (!list.empty()) list += ", ";
    list += name(verb);
  }
  return list;
}

}  // namespace shoal::bench
