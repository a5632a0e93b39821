// TcpProcess: a Process for each of the processes that torchrun has started; they are connected by
// TCP and need no MPI.
#pragma once

#include <memory>

#include "backends/tcp/launch.hpp"
#include "core/base/result.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// Blocks until all processes of the launch are connected. Errors are those of tcp::meet().
Result<std::unique_ptr<Process>> join_tcp(const TcpLaunch& launch);

}  // namespace lockstep
