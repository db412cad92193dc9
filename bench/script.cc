#include "bench/script.h"

namespace shoal::bench {
namespace {

class ScriptWriter {
 public:
  explicit ScriptWriter(const ScriptOptions& options) : options_(options) {}

  void write(Verb verb, std::size_t workload) {
    workload_ = workload;
    if (verb != Verb::kFill && !filled_) prepare(Verb::kFill);
    switch (verb) {
      case Verb::kFill: measure(Verb::kFill); break;
      case Verb::kCheckpoint:
        for (unsigned i = 0; i < options_.rounds; ++i) {
          prepare(Verb::kStream);
          measure(Verb::kCheckpoint);
        }
        break;
      case Verb::kRestore:
        if (!checkpointed_) prepare(Verb::kCheckpoint);
        for (unsigned i = 0; i < options_.rounds; ++i) measure(Verb::kRestore);
        break;
      case Verb::kDemote: repeat(Verb::kDemote, Verb::kPromote); break;
      case Verb::kPromote:
        if (!demoted_) prepare(Verb::kDemote);
        repeat(Verb::kPromote, Verb::kDemote);
        break;
      default:
        if (is_round(verb)) {
          for (unsigned i = 0; i < options_.warmup; ++i) items_.push_back({verb, workload_, false});
        }
        for (unsigned i = 0; i < options_.rounds; ++i) measure(verb);
    }
  }

  std::vector<ScriptItem> finish() {
    if (!filled_) prepare(Verb::kFill);
    prepare(Verb::kInspect);
    return items_;
  }

 private:
  void repeat(Verb verb, Verb undo) {
    for (unsigned i = 0; i < options_.rounds; ++i) {
      measure(verb);
      if (i + 1 < options_.rounds) prepare(undo);
    }
  }

  void prepare(Verb verb) { add({verb, std::nullopt, false}); }
  void measure(Verb verb) { add({verb, workload_, true}); }

  void add(const ScriptItem& item) {
    items_.push_back(item);
    filled_ = filled_ || item.verb == Verb::kFill;
    checkpointed_ = checkpointed_ || item.verb == Verb::kCheckpoint;
    // A round over all nodes brings them back; a restore takes them to where the checkpoint had them.
    if (item.verb != Verb::kVerify && item.verb != Verb::kCheckpoint) demoted_ = item.verb == Verb::kDemote;
  }

  ScriptOptions options_;
  std::vector<ScriptItem> items_;
  std::size_t workload_ = 0;
  bool filled_ = false;
  bool checkpointed_ = false;
  bool demoted_ = false;
};

}  // namespace

std::vector<ScriptItem> make_script(std::span<const Verb> verbs, const ScriptOptions& options) {
  ScriptWriter writer(options);
  for (std::size_t i = 0; i < verbs.size(); ++i) writer.write(verbs[i], i);
  return writer.finish();
}

}  // namespace shoal::bench
