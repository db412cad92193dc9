// Short messages between the communication threads of ranks: who asks for a record, that it is ready, that the asker
// has it. Belongs to the communication thread.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "store/types.h"

namespace shoal {

struct RankMessage {
  enum class Kind : std::uint32_t { kAsk, kReady, kRelease };
  Kind kind = Kind::kAsk;
  NodeId node = kNoNode;  // the owner's number
  Version version = 0;
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  std::uint64_t place = 0;
};

class RankMessages {
 public:
  RankMessages();  // collective; on the communication thread, as everything here
  ~RankMessages();
  RankMessages(const RankMessages&) = delete;
  RankMessages& operator=(const RankMessages&) = delete;

  void post(unsigned to, const RankMessage& message) { to_send_.push_back({to, message}); }
  // Hears what has come and sends what has been posted; whether anything moved.
  bool poll(const std::function<void(unsigned from, const RankMessage& message)>& hear);
  bool sending() const { return sending_ > 0; }

 private:
  struct Outgoing {
    unsigned rank = 0;
    RankMessage message;
  };
  bool send();

  MPI_Comm channel_ = MPI_COMM_NULL;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  RankMessage received_;
  std::deque<Outgoing> to_send_;
  std::vector<RankMessage> send_buffers_;
  std::vector<MPI_Request> sends_;
  std::vector<int> indices_;
  std::uint32_t sending_ = 0;
};

}  // namespace shoal
