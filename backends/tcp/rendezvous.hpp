// Rendezvous: the processes of a launch find each other and connect, every one with every other.
// Process 0 listens at the address that all are given. Every other process connects to it and says
// hello: which process it is, and at which port of its own it listens. Process 0 answers each at
// once with a refusal or a welcome, and when all have come it sends everyone's address. Then
// process i connects to the processes below it, with the same hello and answer.
#pragma once

#include <vector>

#include "backends/tcp/launch.hpp"
#include "backends/tcp/socket.hpp"

namespace lockstep::tcp {

/// A connection to every process, by index; the one to itself is not open. Errors: InvalidSpec if
/// this process is refused (because of another size, or an index that is there twice) or
/// MASTER_ADDR stands for no address; Device if it cannot listen, or if not all processes have come
/// in time, of which process 0 says which, or the launch is cancelled.
Result<std::vector<Socket>> meet(const TcpLaunch& launch);

}  // namespace lockstep::tcp
