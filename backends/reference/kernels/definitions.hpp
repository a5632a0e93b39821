// The definitions of all kernels, each family in a file of its own, which adds them to the table.
#pragma once

#include <array>

#include "core/ir/kernels/kernel.hpp"

namespace lockstep::reference {

class Operands;
using Definition = void (*)(Operands&);

/// The definition of every kernel.
class Definitions {
 public:
  Definitions();
  Definition& operator[](KernelKind kind) { return rows_[static_cast<std::size_t>(kind)]; }
  Definition operator[](KernelKind kind) const { return rows_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<Definition, kNumKernelKinds> rows_{};
};

// Each family has one of these, in the file of its name.
void add_dense(Definitions& kernels);
void add_compression(Definitions& kernels);
void add_attention(Definitions& kernels);
void add_norm(Definitions& kernels);
void add_elementwise(Definitions& kernels);
void add_tokens(Definitions& kernels);
void add_loss(Definitions& kernels);
void add_optimizer(Definitions& kernels);
void add_factors(Definitions& kernels);
void add_vision(Definitions& kernels);
void add_batch_norm(Definitions& kernels);
void add_experts(Definitions& kernels);

}  // namespace lockstep::reference
