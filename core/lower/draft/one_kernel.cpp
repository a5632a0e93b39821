#include "core/lower/draft/one_kernel.hpp"

#include <utility>

namespace lockstep {

Function one_kernel(std::string name, Kernel kernel, const std::vector<NamedOperand>& in,
                    const std::vector<NamedOperand>& out) {
  Function function;
  function.name = std::move(name);
  for (const NamedOperand& named : in) {
    Operand operand{static_cast<std::int16_t>(function.formals.size()), named.dtype, 0};
    if (named.name.empty()) operand.formal = -1;
    kernel.in.push_back(operand);
    if (operand.present()) function.formals.push_back({named.name, Access::Read, {}});
  }
  for (const NamedOperand& named : out) {
    kernel.out.push_back({static_cast<std::int16_t>(function.formals.size()), named.dtype, 0});
    function.formals.push_back({named.name, Access::Write, {}});
  }
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (!kernel.in[i].present()) continue;
    function.formals[kernel.in[i].formal].bytes =
        Bytes{input_elements(kernel, i) * size_of(kernel.in[i].dtype)};
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    Formal& formal = function.formals[kernel.out[i].formal];
    formal.bytes = Bytes{output_elements(kernel, i) * size_of(kernel.out[i].dtype)};
    if (output_is_read(kernel, i)) formal.access = Access::ReadWrite;
  }
  function.kernels.push_back(std::move(kernel));
  return function;
}

Kernel bare_kernel(KernelKind kind, DType dtype, std::array<std::int64_t, kMaxDims> dims,
                   std::array<double, 4> scalars) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = dtype;
  kernel.dims = dims;
  kernel.scalars = scalars;
  return kernel;
}

}  // namespace lockstep
