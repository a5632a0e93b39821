// TcpLaunch: what torchrun, or anything that sets the same variables, tells each of the processes
// that it has started.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

struct TcpLaunch {
  int rank = 0;
  int world_size = 1;
  std::string address;   // of process 0: a name or a number
  int port = 0;          // where it listens
  std::string run;       // of this launch: processes of another one are turned away
  double seconds = 120;  // until all must have come
};

/// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. None for a process on its own: WORLD_SIZE or
/// RANK is not set, or there is one process. torchrun itself may listen at MASTER_PORT (it then
/// says so in TORCHELASTIC_USE_AGENT_STORE): the port is the next one then. LOCKSTEP_PORT is taken
/// instead if it is set, LOCKSTEP_JOIN_SECONDS as the time to wait. Error InvalidSpec: variables
/// that are missing or make no sense.
Result<std::optional<TcpLaunch>> find_tcp_launch();

}  // namespace lockstep
