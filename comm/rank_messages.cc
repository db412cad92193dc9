#include "comm/rank_messages.h"

#include "comm/mpi_error.h"

namespace shoal {
namespace {

constexpr int kTag = 1;
constexpr std::uint32_t kMostSends = 32;

}  // namespace

RankMessages::RankMessages() : send_buffers_(kMostSends), sends_(kMostSends, MPI_REQUEST_NULL), indices_(kMostSends) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &channel_), "MPI_Comm_dup");
  check(MPI_Recv_init(&received_, sizeof(received_), MPI_BYTE, MPI_ANY_SOURCE, kTag, channel_, &receiving_),
        "MPI_Recv_init");
  check(MPI_Start(&receiving_), "MPI_Start");
}

RankMessages::~RankMessages() {
  MPI_Cancel(&receiving_);
  MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
  MPI_Request_free(&receiving_);
  MPI_Comm_free(&channel_);
}

bool RankMessages::poll(const std::function<void(unsigned from, const RankMessage& message)>& hear) {
  bool moved = false;
  for (;;) {
    int there = 0;
    MPI_Status status;
    check(MPI_Test(&receiving_, &there, &status), "MPI_Test");
    if (there == 0) break;
    const RankMessage message = received_;
    check(MPI_Start(&receiving_), "MPI_Start");
    hear(static_cast<unsigned>(status.MPI_SOURCE), message);
    moved = true;
  }
  return (sending_ > 0 || !to_send_.empty()) && send() ? true : moved;
}

bool RankMessages::send() {
  int count = 0;
  check(MPI_Testsome(kMostSends, sends_.data(), &count, indices_.data(), MPI_STATUSES_IGNORE), "MPI_Testsome");
  if (count != MPI_UNDEFINED) sending_ -= static_cast<std::uint32_t>(count);
  bool sent = false;
  for (std::uint32_t k = 0; k < kMostSends && !to_send_.empty(); ++k) {
    if (sends_[k] != MPI_REQUEST_NULL) continue;
    send_buffers_[k] = to_send_.front().message;
    check(MPI_Isend(&send_buffers_[k], sizeof(RankMessage), MPI_BYTE, static_cast<int>(to_send_.front().rank), kTag,
                    channel_, &sends_[k]),
          "MPI_Isend");
    to_send_.pop_front();
    ++sending_;
    sent = true;
  }
  return sent;
}

}  // namespace shoal
