// The reference backend: every kernel by its definition (backends/reference/kernels), one thread
// per rank. It is slow by design, and what the other backends are compared with.
#pragma once

#include <memory>

#include "core/run/backend.hpp"
#include "core/run/executor.hpp"

namespace lockstep {

/// Trains on RunOptions::dataset, all ranks in this process.
std::unique_ptr<Backend> make_reference_backend(const ExecutorOptions& options = {});

}  // namespace lockstep
