// A device with streams and events that is no device: what is put on a stream runs when the fake gets there, in a
// random order that respects only what streams and events promise. It stands for CUDA, as guard of that device type.
//
// Time passes when somebody uses the device: with every call a few operations may run, and whoever waits for a stream
// runs operations, of all streams, until it is empty.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "pipeline/device_memory.h"

namespace shoal {

class FakeDevice {
 public:
  static inline const c10::Device kDevice{c10::DeviceType::CUDA, 0};

  // kEager: an operation runs in the call that puts it on a stream. For computations that are real and not put on one.
  enum class Order { kRandom, kEager };
  // kReluctant: runs only when there is nothing else to run and all threads wait.
  enum class Eagerness { kNormal, kReluctant };

  static FakeDevice& get();
  // Forgets everything. `threads` is how many will use it at the same time.
  void begin(std::uint64_t seed, unsigned threads = 1, Order order = Order::kRandom);
  void thread_is_done();             // one of them
  void wait_for_a_waiting_thread();  // or for one that is done
  // Every later wait for a stream fails, as on a device that is gone.
  void break_down();

  // On the calling thread's current stream.
  void enqueue(const std::string& label, std::function<void()> run, Eagerness eagerness = Eagerness::kNormal);
  std::size_t pending();
  std::vector<std::string> log();  // what has run, by label

  // For the guard.
  c10::Stream new_stream();
  c10::Stream exchange_stream(c10::Stream stream);
  c10::Stream current_stream() const;
  void record(void** event, c10::StreamId stream);
  void block(void* event, c10::StreamId stream);
  bool query(void* event);
  void destroy(void* event);
  void synchronize(c10::StreamId stream);

 private:
  struct Event {
    std::uint64_t recorded = 0;  // versions put on a stream
    std::uint64_t reached = 0;   // the last one that a stream has passed
  };
  struct Operation {
    std::string label;
    std::function<void()> run;
    std::shared_ptr<const Event> waits_for;
    std::uint64_t version = 0;
    Eagerness eagerness = Eagerness::kNormal;
  };
  using Lock = std::unique_lock<std::mutex>;

  void push(c10::StreamId stream, Operation operation);
  bool run_one(Eagerness eagerness);  // false: nothing of that eagerness can run
  void let_time_pass();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  Order order_ = Order::kRandom;
  unsigned threads_ = 1;
  unsigned done_ = 0;
  unsigned waiting_ = 0;
  bool broken_ = false;
  std::int64_t streams_ = 0;
  std::map<c10::StreamId, std::deque<Operation>> queues_;
  std::map<void*, std::shared_ptr<Event>> events_;
  std::vector<std::string> log_;
};

// Its memory starts as garbage, and garbage is what a copy that comes too early brings.
class FakeMemory final : public DeviceMemory {
 public:
  explicit FakeMemory(std::string label = "") : label_(std::move(label)) {}
  // The copy that many calls from now throws; 0: the next one.
  void fail_after(unsigned copies) { copies_left_ = copies; }
  // That the last "in" or "out" was put on.
  c10::StreamId stream_of(const std::string& what) const { return streams_.at(what); }

  DeviceBlock allocate(std::size_t bytes) override;
  DeviceBlock allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) override;
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) override;

 private:
  void copy(const char* what, std::byte* to, const std::byte* from, std::size_t bytes);

  std::string label_;
  unsigned copies_left_ = ~0U;
  std::map<std::string, c10::StreamId> streams_;
};

}  // namespace shoal
