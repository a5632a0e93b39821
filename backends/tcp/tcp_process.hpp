// The processes that torchrun has started, as the Process of each: connected by TCP, no MPI.
#pragma once

#include <memory>

#include "backends/tcp/launch.hpp"
#include "core/base/result.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// Blocks until all processes of the launch are connected. Errors as tcp::meet.
Result<std::unique_ptr<Process>> join_tcp(const TcpLaunch& launch);

}  // namespace lockstep
