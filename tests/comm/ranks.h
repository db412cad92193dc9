// The ranks that run these tests, each of them all of the tests.
#pragma once

#include "comm/communicator.h"

namespace shoal::testing {

Communicator& ranks();

}  // namespace shoal::testing
