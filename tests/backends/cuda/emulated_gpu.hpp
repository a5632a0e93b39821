// Emulated GPU: lets a FakeGpu compute with the kernels of backends/cuda, run by fibers.
#pragma once

#include <utility>

#include "backends/cuda/kernels/registry.hpp"
#include "tests/backends/cuda/fake_gpu.hpp"

namespace lockstep::cuda::test {

inline FakeKernels emulated_kernels() {
  const emulated::Registry& rows = emulated::registry();
  return {[&](const Kernel& kernel) { return rows.supports(kernel); },
          [&](const Kernel& kernel) { return rows.scratch_bytes(kernel); },
          [&](const KernelCall& call) {
            emulated::Queue queue;
            rows[call.kernel->kind].launch(call, queue);
            return queue.status();
          },
          false,
          [](const RowExchange& exchange) {
            emulated::Queue queue;
            emulated::exchange_rows(exchange, queue);
          }};
}

}  // namespace lockstep::cuda::test
