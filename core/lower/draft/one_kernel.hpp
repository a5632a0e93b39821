// One kernel: functions that passes make of a single kernel.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

struct NamedOperand {
  std::string name;  // empty if the operand is absent
  DType dtype;
};

/// A function of one kernel. Its formals are the operands of the kernel: first `in`, then `out`.
Function one_kernel(std::string name, Kernel kernel, const std::vector<NamedOperand>& in,
                    const std::vector<NamedOperand>& out);

/// A kernel without operands.
Kernel bare_kernel(KernelKind kind, DType dtype, std::array<std::int64_t, kMaxDims> dims,
                   std::array<double, 4> scalars = {});

}  // namespace lockstep
