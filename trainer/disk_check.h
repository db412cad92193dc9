// Whether the disks have room for a run: found out before anything is written, for all ranks together.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "planner/disk_space.h"
#include "trainer/requirements.h"
#include "trainer/store_place.h"

namespace shoal {

// Where that rank's store will be, as this host has it, and what is there of it already.
RankDisk disk_of_rank(const TrainOptions& options, const RankNumbers& rank);
// Of all ranks of one host, where ranks fill one host after the other.
std::vector<RankDisk> disks_of_host(const TrainOptions& options, unsigned ranks, unsigned hosts);

// Collective. An Error when what all ranks need of a disk is more than is free there. Needs are at first bounds that
// take no time; where those do not fit, every rank rehearses its part of the run. Returns a remark for people, or
// nothing.
std::string check_disk(const TrainOptions& options, const Requirements& requirements, Communicator& ranks);

}  // namespace shoal
