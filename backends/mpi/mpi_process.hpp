// MpiProcess: a Process for each of the processes that mpirun has started.
#pragma once

#include <memory>

#include "backends/mpi/launcher.hpp"
#include "core/base/result.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// Initializes MPI. All processes of the launch call it, each once and from its main thread.
/// Errors: Unsupported if this binary was built without MPI, or if its MPI does not let several
/// threads communicate; Device if the launcher belongs to another MPI than the binary.
Result<std::unique_ptr<Process>> join_mpi(const Launch& launch);

}  // namespace lockstep
