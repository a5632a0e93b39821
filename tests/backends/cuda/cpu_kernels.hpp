// CPU kernels: lets a FakeGpu compute with the kernels of backends/cpu.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/kernels.hpp"
#include "tests/backends/cuda/fake_gpu.hpp"

namespace lockstep::cuda::test {

/// The kernels of one instruction set.
inline FakeKernels cpu_kernels(const cpu::KernelTable& table) {
  const auto run = [&table](const KernelCall& call) {
    // Each operand becomes a buffer of its own, because run_kernel() adds offsets to the addresses
    // of formals.
    Kernel kernel = *call.kernel;
    std::vector<std::byte*> buffers;
    const auto bind = [&](std::vector<Operand>& operands, const auto& addresses) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].present()) continue;
        operands[i].formal = static_cast<std::int16_t>(buffers.size());
        operands[i].offset = 0;
        buffers.push_back(addresses[i]);
      }
    };
    bind(kernel.in, call.in);
    bind(kernel.out, call.out);
    ThreadTeam team(1);
    cpu::run_kernel(table, kernel, buffers,
                    call.context_at != nullptr ? *call.context_at : call.context, team);
    return Result<void>();
  };
  return {[](const Kernel& kernel) { return cpu::supports(kernel); },
          [](const Kernel&) { return std::int64_t{0}; }, run};
}
inline FakeKernels cpu_kernels() { return cpu_kernels(cpu::kernel_tables().best()); }

}  // namespace lockstep::cuda::test
