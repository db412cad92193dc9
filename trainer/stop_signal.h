// How a run is asked to end before its last round.
//
// SIGUSR1, SIGTERM and SIGINT (Ctrl-C) ask for a checkpoint at the end of the round. The second SIGTERM or SIGINT ends
// the program at once, as it would any other. SIGUSR1 never does: it is what launchers and schedulers pass on and do
// not follow up with SIGKILL.
#pragma once

#include <string>

namespace shoal {

// From now on. `answer` is said on stderr as soon as the first signal comes; empty: nothing is.
void listen_for_stop(const std::string& answer);
bool stop_requested();

}  // namespace shoal
