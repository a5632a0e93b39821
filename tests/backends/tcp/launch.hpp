// Launch: how tests start TCP processes, each on a thread of its own.
#pragma once

#include <chrono>

#include "backends/tcp/rendezvous.hpp"
#include "backends/tcp/tcp_process.hpp"
#include "tests/catch.hpp"

namespace lockstep::test {

inline int free_port() {
  const auto listener = tcp::listen_at(0);
  REQUIRE(listener.ok());
  return listener->local().port();
}

inline tcp::Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(5); }

/// The launch of one of `size` processes that join at a port of this machine.
inline TcpLaunch launch_of(int rank, int size, int port, double timeout = TcpLaunch{}.timeout) {
  TcpLaunch launch;
  launch.rank = rank;
  launch.world_size = size;
  launch.address = "127.0.0.1";
  launch.port = port;
  launch.run = "test";
  launch.seconds = 20;
  launch.timeout = timeout;
  return launch;
}

}  // namespace lockstep::test
