// KernelFamily: what a kernel of a trace from elsewhere does, told from its name.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

enum class KernelFamily : std::uint8_t {
  Product,    // matrix products: cuBLAS, CUTLASS, Triton's templates
  Attention,  // flash attention and its relatives
  Convolution,
  Normalization,  // layer, RMS, batch and group norm
  Reduction,      // sums, softmax, sorting
  Indexing,       // embedding, gather, scatter, concatenation, transposition
  Elementwise,    // also copies, casts and random numbers
  Optimizer,      // updates of parameters
  Other
};
inline constexpr int kNumKernelFamilies = static_cast<int>(KernelFamily::Other) + 1;
std::string_view to_string(KernelFamily family);  // "matrix product", "attention", …

/// The family of a kernel. What stands before the arguments of a template decides; only if that
/// says nothing, the whole name does: "vectorized_elementwise_kernel<4, softmax…>" is elementwise.
KernelFamily family_of_kernel(std::string_view name);

}  // namespace lockstep
