// TcpLaunch: what torchrun, or any launcher that sets the same variables, tells each process that
// it has started.
#pragma once

#include <atomic>
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
  double timeout = 10;   // how long a process may be silent before it counts as lost; 0: for ever
  std::string secret;    // which all processes of the job know; empty: none is asked for
  std::string bind;      // address at which to listen; empty: the loopback one if `address` is such
                         // a one, else all of this machine's
  int listener = -1;     // descriptor of a socket that listens already, for process 0
  const std::atomic<bool>* cancel = nullptr;  // once it is true, nobody is waited for any more
};

/// Whether anyone on the network can reach a port of this process and join: it listens not only at
/// a loopback address, and the job has no secret.
bool is_open_to_anyone(const TcpLaunch& launch);

/// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Returns nullopt if the process is alone:
/// RANK or WORLD_SIZE is not set, or there is one process. If torchrun itself listens at
/// MASTER_PORT, which it says in TORCHELASTIC_USE_AGENT_STORE, the port is the next one;
/// LOCKSTEP_PORT, if set, replaces it in any case. LOCKSTEP_JOIN_SECONDS, LOCKSTEP_TIMEOUT_SECONDS,
/// LOCKSTEP_SECRET (or LOCKSTEP_SECRET_FILE, which holds it) and LOCKSTEP_BIND are the other
/// fields; LOCKSTEP_LISTENER comes from --nproc. Error InvalidSpec if a variable is missing or
/// makes no sense.
Result<std::optional<TcpLaunch>> find_tcp_launch();

}  // namespace lockstep
