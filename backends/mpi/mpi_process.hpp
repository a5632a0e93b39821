// The processes that mpirun has started, as the Process of each.
#pragma once

#include <memory>

#include "backends/mpi/launcher.hpp"
#include "core/base/result.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// Initializes MPI: once in a process, from the main thread. All processes of the launch call it.
/// Errors: Unsupported if this binary was built without MPI, or if its MPI does not let several
/// threads communicate; Device if the launcher belongs to another MPI than the binary.
Result<std::unique_ptr<Process>> join_mpi(const Launch& launch);

}  // namespace lockstep
