// The engines there are; engine.cc knows them by name.
#pragma once

#include <memory>

#include "bench/engine.h"
#include "store/device_choice.h"

namespace shoal::bench {

// Shoal's store on one of its devices.
std::unique_ptr<Engine> make_shoal_engine(const EngineOptions& options, IoEngine io);
std::uint64_t shoal_minimum_ram(const EngineOptions& options);

// What one would otherwise write. None has a checkpoint or a cold tier.
std::unique_ptr<Engine> make_rocksdb_engine(const EngineOptions& options);
std::unique_ptr<Engine> make_mmap_engine(const EngineOptions& options);
std::unique_ptr<Engine> make_mmap_advised_engine(const EngineOptions& options);
std::unique_ptr<Engine> make_files_engine(const EngineOptions& options);

}  // namespace shoal::bench
