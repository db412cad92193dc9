// A device that breaks things on purpose, around any other: the nth operation fails, completions come late and out of
// order, the power goes off.
//
// The test keeps the FaultScript and gives the device to the store. A FaultScript may be used from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "store/io_device.h"

namespace shoal {

enum class Fault : std::uint8_t {
  kIoError,  // EIO; nothing is transferred
  kShort,    // half of the blocks are transferred, and the completion says so
  kNoSpace,  // ENOSPC; nothing is transferred
  kTorn,     // half of the blocks are written, then EIO
};
// An operation that transfers nothing, or that cannot be torn, takes kShort and kTorn as kIoError.

enum class DeviceOperation : std::uint8_t { kRead, kWrite, kSync, kResize, kAllocate, kPunch };
inline constexpr std::size_t kDeviceOperationCount = 6;

class FaultScript {
 public:
  // The nth operation since the script was made, the first being 1; with `only`, the nth of that kind.
  void fail(std::uint64_t nth, Fault fault, std::optional<DeviceOperation> only = std::nullopt);

  // From now on completions are held back for a few waits and come in random order.
  void delay_completions(std::uint64_t seed);

  // Before the device is used, if the power is to be cut: a read goes before every write, to know what to put back.
  // These reads, and the putting back, happen on the thread that makes the call; so around io_uring, which has one
  // owner thread, all calls and the destruction must come from it. Memory, posix and mapped do not care.
  void keep_undo();

  // From now on nothing reaches the device below and every operation fails with EIO. When the device is destroyed, all
  // that was not synced is undone: writes not known to be complete before the last sync of their file, resizes,
  // punched holes. With a seed, every block of it survives with a chance of one half, as on a real disk. What was
  // stored through in_place() is not undone.
  void cut_power(std::optional<std::uint64_t> survivors_seed = std::nullopt);

  std::uint64_t operations() const;  // submitted so far
  std::uint64_t operations(DeviceOperation kind) const;
  std::uint64_t injected() const;  // faults of fail() that have happened

 private:
  friend class FaultyDevice;

  struct Planned {
    std::uint64_t nth;
    Fault fault;
    std::optional<DeviceOperation> only;
  };

  // Counts it, and says how it is to fail.
  std::optional<Fault> next(DeviceOperation operation);
  std::optional<std::uint64_t> delay_seed() const;
  bool keeps_undo() const;
  bool power_is_cut() const;
  std::optional<std::uint64_t> survivors_seed() const;

  mutable std::mutex mutex_;
  std::vector<Planned> planned_;
  std::array<std::uint64_t, kDeviceOperationCount> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t injected_ = 0;
  std::optional<std::uint64_t> delay_seed_;
  bool keep_undo_ = false;
  bool power_cut_ = false;
  std::optional<std::uint64_t> survivors_seed_;
};

// One request less deep than `inner`: it needs a place for reads and writes of its own.
std::unique_ptr<IoDevice> make_faulty_device(std::unique_ptr<IoDevice> inner, std::shared_ptr<FaultScript> script);

}  // namespace shoal
