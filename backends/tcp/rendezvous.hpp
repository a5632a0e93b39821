// Rendezvous: the processes of a launch find each other and connect, every one with every other.
//
// Process 0 listens where all are told to. Another one connects to it and says hello: who it is and
// at which port of its own it listens. Process 0 answers each at once, with a refusal or a welcome,
// and with everyone's address when all have come; then process i connects to those below it, with
// the same hello and answer.
#pragma once

#include <vector>

#include "backends/tcp/launch.hpp"
#include "backends/tcp/socket.hpp"

namespace lockstep::tcp {

/// A connection to every other process, by rank; the own one is not open. Errors: InvalidSpec if
/// this process is refused (another size, a rank twice) or MASTER_ADDR stands for nothing; Device
/// if it cannot listen, or not all have come in time: process 0 says which.
Result<std::vector<Socket>> meet(const TcpLaunch& launch);

}  // namespace lockstep::tcp
