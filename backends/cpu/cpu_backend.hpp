// The CPU backend: ranks are threads of this process, kernels are backends/cpu/kernels.hpp,
// transfers go through memory.
#pragma once

#include <memory>

#include "core/run/backend.hpp"
#include "core/run/executor.hpp"

namespace lockstep {

/// Trains on TrainingSpec::dataset (a relative path starts at Scenario::directory).
std::unique_ptr<Backend> make_cpu_backend(const ExecutorOptions& options = {});

}  // namespace lockstep
