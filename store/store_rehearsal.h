// Rounds as the store would run them, without their bytes: who stays in RAM, what is read and written, how much disk it
// takes. What a planner asks before a run.
//
// It is the store's own engine, so a prediction cannot have another policy than the run. Frames are addresses without
// memory, the device finishes everything at once and keeps nothing. Steps come back in the order in which they were
// handed out, each only when the engine can read no further ahead: the frames that a busy run holds are held here too.
// Other ranks' records are there as soon as they are asked for; what others ask for here comes as the plan says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "store/state_store.h"

namespace shoal {

// Another rank reads one of this store's public records: from RAM if it is there, or it asks for it.
struct PeerRead {
  NodeId node = kNoNode;
  float when = 0;  // the share of the round's steps that are handed out by then
};

class StoreRehearsal {
 public:
  // No directory, region, peers or device is needed. A usage Error when ram_bytes is too little. `fetched` is told of
  // every guest that the store gets from its owner, on another thread.
  explicit StoreRehearsal(const StoreOptions& options, std::function<void(NodeId guest)> fetched = {});
  ~StoreRehearsal();

  // `peers` must be in the order of their time.
  void plan(std::shared_ptr<const AccessPlan> round, std::vector<PeerRead> peers = {});
  RoundReport run();                     // the round that was planned first; no times, no lower bound
  std::uint64_t records_served() const;  // so far: reads of other ranks that did not find the record in RAM

  std::uint64_t checkpoint();  // bytes that it wrote; records only
  // Bytes in the cold tier are given as they are before compression; there are no modes.
  StoreReport report();

 private:
  class Stage;
  class Peers;
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<Peers> peers_;  // null: no other ranks
  std::unique_ptr<StoreEngine> engine_;
};

}  // namespace shoal
