// TcpLaunch: what torchrun, or any launcher that sets the same variables, tells each process that
// it has started.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

struct TcpLaunch {
  int rank = 0;
  int world_size = 1;
  std::string address;   // of process 0, as a name or a number
  int port = 0;          // at which process 0 listens
  std::string run;       // identifies the launch; processes of another launch are refused
  double seconds = 120;  // how long to wait until all processes have come
};

/// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Returns nullopt if the process is alone:
/// RANK or WORLD_SIZE is not set, or there is one process. If torchrun itself listens at
/// MASTER_PORT, which it says in TORCHELASTIC_USE_AGENT_STORE, the port is the next one;
/// LOCKSTEP_PORT, if set, replaces it in any case. LOCKSTEP_JOIN_SECONDS is the time to wait. Error
/// InvalidSpec if a variable is missing or makes no sense.
Result<std::optional<TcpLaunch>> find_tcp_launch();

}  // namespace lockstep
