// The CPU backend, with the kernels of backends/cpu/kernels. Ranks are threads of this process and
// transfers go through memory; or each rank is a process and transfers are messages. Both give the
// same bits.
#pragma once

#include <memory>

#include "core/run/backend.hpp"
#include "core/run/executor.hpp"

namespace lockstep {

/// Every rank computes with `threads_per_rank` threads. If options.process is one of several, each
/// process runs the rank of its index, and run() returns InvalidSpec if there are more or fewer
/// processes than ranks.
std::unique_ptr<Backend> make_cpu_backend(const ExecutorOptions& options = {},
                                          int threads_per_rank = 1);

}  // namespace lockstep
