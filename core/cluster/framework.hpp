// FrameworkSpec: how the software of a run writes its kernels, where that decides what they cost.
// The simulator alone reads it: programs compute the same, and real backends have their own
// kernels.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace lockstep {

/// The kernels that compute attention.
enum class AttentionKernel {
  Profile,  // those that the card's profile measured (its efficiency curves)
  Unfused,  // two batched products with the scores [batch, heads, seq, seq] stored between them
  Flash1,   // Dao et al. 2022
  Triton,   // FlashAttention in Triton, of 2022
  Flash2,   // Dao 2023
  Flash3,   // Shah et al. 2024; before Hopper, FlashAttention 2
  Cudnn,    // cuDNN 9; before Hopper, FlashAttention 2
};

/// Whether products of linear layers compute in 8 bits, and how the scales of their operands are
/// found (Transformer Engine).
enum class Fp8Recipe {
  None,
  Delayed,  // from the largest values of earlier steps
  Current,  // from the tensor itself, which is read once more
  Block,    // likewise, for each block of 128 values
};

/// Whether products of linear layers compute in 4 bits (E2M1), with a scale for each block of
/// values: 16 of them with a scale in E4M3, or 32 with a power of two.
enum class Fp4Recipe { None, Nvfp4, Mxfp4 };

/// Every default is that of this project's own kernels. docs/cost-model.md has the bytes behind
/// each key.
struct FrameworkSpec {
  std::string preset = "lockstep";
  AttentionKernel attention = AttentionKernel::Profile;
  bool fused_softmax = true;       // of unfused attention: scale, mask and softmax are one kernel
  bool attention_dropout = false;  // its probabilities have dropout; if unfused, the mask is stored

  bool fused_residual = true;    // the product adds bias and residual; false: a kernel of its own
                                 // does, with dropout and its mask
  bool fused_norm = true;        // false: a root mean square norm is seven kernels, in float32
  bool fused_activation = true;  // false: bias, and both halves of SwiGLU, in kernels of their own
  bool channels_last = true;     // false: images lie with channels first, and cuDNN reorders them
  int float32_logits = 0;        // copies of the logits in float32 that live until backward
  int kept_logits = 0;           // copies in the parameters' type that the engine keeps beside them
  bool fused_gradient_accumulation = true;  // false: products write gradients that are then added
  bool fused_optimizer = true;              // false: an elementwise kernel for every operation
  bool overlaps_weight_gradients = true;    // tensor parallelism sums up the input's gradient while
                                            // the weight's is computed; false: after it
  bool recomputes_all = false;  // a block that is computed again is computed to its end; false: to
                                // the last result that the backward pass needs
  Fp8Recipe fp8 = Fp8Recipe::None;
  Fp4Recipe fp4 = Fp4Recipe::None;  // before fp8, where the device has such products
  // In the first year of a card its libraries do not reach what the profile says: on cards of this
  // compute capability and later ones, products reach only this part of it.
  double new_capability = 100;
  double new_matmul_rate = 1;

  Seconds host_kernel;           // what the host takes to launch a kernel, in a lane of its own
  bool launch_blocking = false;  // the host then waits for each kernel (CUDA_LAUNCH_BLOCKING=1)
  Seconds layer;                 // what each pass of a transformer block takes beside its kernels
  /// What a step takes beside its kernels, where clipping reads the norm and the device waits.
  Seconds step;

  // What a process keeps on its device beside the program's arena (core/memory).
  Bytes context{std::int64_t{600} << 20};  // the driver's context and the kernels that it loaded
  int workspaces = 1;              // of cuBLAS: 32 MiB each, 8 MiB before compute capability 9
  int communicators = 0;           // over all ranks, beside those that the program's groups need
  bool caching_allocator = false;  // blocks that are taken and freed as the step runs; false: one
                                   // arena, planned before it
  double fragments = 0;            // the part of what is not persistent that is lost between blocks
  double cached = 0;  // the part of it that the allocator holds free, and gives back in need
  double optimizer_bytes = 12;         // of a parameter with a float32 master: that and two moments
  bool gradient_copies = false;        // gradients in the parameters' type beside float32 sums
  bool gradient_placeholders = false;  // an unused gradient for every shape of weight
  bool fp8_parameters = false;         // weights are kept in 8 bits alone

  // The values that training and parallelism take where a scenario names a framework and does not
  // give the key.
  bool gradients_as_parameters = false;  // mixed_precision_reduce = mixed_precision_param
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = false;
  bool all_reduce_each_microbatch = false;
  /// Parameters are gathered, and gradients reduced, one by one, and this is what the host takes
  /// for each rank's part of one. 0: units go as a whole.
  Seconds parameter_part;
  bool waits_for_messages = false;  // pipeline_parallel_p2p of 1F1B: "fused", not "async"
  bool prefetches_gathers = true;   // false: fsdp_prefetch is 0

  /// Where all tensor-parallel ranks have a pipeline's message, each sends its part of it, and they
  /// gather the whole where it arrives (Narayanan et al. 2021, 4.1). With sequence parallelism
  /// ranks have parts anyway.
  bool scatters_messages = false;
  /// Collectives of sequence parallelism advance chunk by chunk, together with the products beside
  /// them (Transformer Engine's user buffers, tp_comm_overlap).
  bool overlaps_products = false;

  /// The factor on the rate of products: new_matmul_rate where the card is new, else 1.
  double matmul_rate(double capability) const {
    return capability >= new_capability ? new_matmul_rate : 1.0;
  }
  bool stores_scores() const { return attention == AttentionKernel::Unfused; }
  /// The bytes of every score that the backward pass needs, where an element has `size` bytes: the
  /// softmax, and with dropout, the framework's or that of the training (`drops`), also its mask (a
  /// byte) and its result (Korthikanti et al. 2022, 5 a s² b bytes).
  int bytes_of_score(int size, bool drops = false) const {
    return !stores_scores() ? 0 : attention_dropout || drops ? 2 * size + 1 : size;
  }
  /// The bytes that stay of every logit until its backward pass, beside the logit itself.
  int bytes_of_logit(int size) const { return 4 * float32_logits + size * kept_logits; }
  bool operator==(const FrameworkSpec&) const = default;
};

}  // namespace lockstep
