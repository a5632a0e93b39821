// The reference backend: every kernel is computed by its definition (backends/reference/kernels),
// with one thread per rank. It is slow by design. The other backends are compared with it.
#pragma once

#include <memory>

#include "core/run/backend.hpp"
#include "core/run/executor.hpp"

namespace lockstep {

/// Makes the backend. It runs all ranks in this process.
std::unique_ptr<Backend> make_reference_backend(const ExecutorOptions& options = {});

}  // namespace lockstep
