// The only way the store touches slab files: asynchronous reads and writes of aligned blocks, and a few blocking file
// operations.
//
// Every call but wake() belongs to one owner thread, the store's. A device either transfers a request in full or
// reports why not; what the kernel transfers short it continues itself. Blocking operations throw Error with path,
// offset and errno text.
//
// Implementations: UringDevice (O_DIRECT, registered buffers and files), PosixDevice (O_DIRECT pread/pwrite on a few
// threads), MappedDevice (the file is mapped and records are used in place), MemoryDevice (tests), FaultyDevice (wraps
// any of them and breaks things on purpose).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/mode_report.h"

namespace shoal {

using FileId = std::uint32_t;

struct IoRequest {
  enum class Op : std::uint8_t { kRead, kWrite };
  Op op = Op::kRead;
  FileId file = 0;
  std::uint64_t offset = 0;   // multiple of kBlockBytes
  std::byte* data = nullptr;  // aligned to kBlockBytes; must live until the completion
  std::uint32_t length = 0;   // multiple of kBlockBytes
  std::uint64_t tag = 0;      // comes back in the completion
};

struct IoCompletion {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes transferred (== length, unless a fault was injected) or -errno
};

enum class OpenMode { kCreate, kExisting };  // kCreate truncates what is there
enum class WaitMode { kPoll, kBlock };

class IoDevice {
 public:
  virtual ~IoDevice() = default;

  virtual std::string_view name() const = 0;
  // What was asked for and what was given, when they differ from the best this device can do (no O_DIRECT, buffers not
  // registered, ...).
  virtual std::vector<ModeReport> modes() const = 0;

  virtual FileId open(const std::filesystem::path& path, OpenMode mode) = 0;
  virtual const std::filesystem::path& path(FileId file) const = 0;
  virtual std::uint64_t size(FileId file) const = 0;
  virtual void resize(FileId file,
                      std::uint64_t bytes) = 0;  // growing allocates the blocks, so that a full disk shows here
  virtual void allocate(FileId file, std::uint64_t offset,
                        std::uint64_t length) = 0;  // blocks back into a punched range
  virtual void punch(FileId file, std::uint64_t offset,
                     std::uint64_t length) = 0;  // blocks back to the file system; reads as zeros
  virtual void sync(FileId file) = 0;            // everything completed so far is durable when it returns

  // Takes the requests over; at most depth() may be outstanding. Does not wait for any of them.
  virtual void submit(std::span<const IoRequest> requests) = 0;
  // Appends completions to `done`. kBlock returns with at least one completion or after wake(); kPoll returns at once.
  virtual void wait(WaitMode mode, std::vector<IoCompletion>& done) = 0;
  // Makes the current or next wait(kBlock) return. Any thread; may be called at any time between construction and
  // destruction.
  virtual void wake() noexcept = 0;
  virtual unsigned depth() const = 0;

  // Where the bytes of the file are in memory, if the device lets records be used in place; else null. Such a device
  // takes a request whose `data` is that very address as «will be needed» (read) and «done with it; let the pages go»
  // (write), and copies otherwise.
  virtual std::byte* in_place(FileId file, std::uint64_t offset) = 0;
};

}  // namespace shoal
