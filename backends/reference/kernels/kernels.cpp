#include "backends/reference/kernels/kernels.hpp"

#include <chrono>
#include <thread>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"

namespace lockstep::reference {
namespace {

void delay(Operands& k) { std::this_thread::sleep_for(std::chrono::duration<double>(k.scalar(0))); }

}  // namespace

Definitions::Definitions() {
  add_dense(*this);
  add_compression(*this);
  add_attention(*this);
  add_norm(*this);
  add_elementwise(*this);
  add_tokens(*this);
  add_loss(*this);
  add_optimizer(*this);
  add_factors(*this);
  add_vision(*this);
  add_batch_norm(*this);
  add_experts(*this);
  (*this)[KernelKind::Delay] = delay;
}

bool supports(const Kernel& kernel) {
  return kernel.kind == KernelKind::Delay || types_fit(kernel);
}

void run_kernel(const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context) {
  Operands operands(kernel, buffers, context);
  static const Definitions definitions;
  definitions[kernel.kind](operands);
  operands.store();
}

}  // namespace lockstep::reference
