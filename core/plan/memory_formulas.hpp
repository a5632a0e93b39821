// Memory formulas from the literature. Reports show them beside the planned memory of a program,
// which is exact. GB are 10^9 bytes, GiB 2^30.
#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes that training keeps for each parameter.
struct StateWidths {
  double parameters = 4, gradients = 4, optimizer = 8;  // everything in float32, 16 bytes in all
};
inline constexpr StateWidths kMixedFp16{2, 2, 12};  // with master weights (Rajbhandari et al. 2020)

struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
  double total() const { return parameters + gradients + optimizer; }
};

/// Model states per rank under ZeRO `stage` (0: DDP) on `ranks` data-parallel ranks. Rajbhandari et
/// al. 2020, figure 1: stage 1 shards the optimizer states, 2 the gradients too, 3 the parameters.
StateBytes model_states(double parameters, int stage, int ranks, const StateWidths& widths);

enum class ActivationSavings {
  None,               // tensor parallelism only
  SequenceParallel,   // norms and residuals are sharded, too
  Selective,          // attention scores are recomputed
  SequenceSelective,  // both of the above
  Full,               // only the input of each layer is kept
};

struct ActivationShape {
  double batch = 1, seq = 1, hidden = 1, heads = 1;
  double tensor_parallel = 1;
};

/// Bytes of one layer's activations for one microbatch, in 16-bit types and with attention scores
/// stored. Korthikanti et al. 2022, table 2: sbh(10 + 24/t + 5as/(ht)) and its variants.
double activation_bytes_per_layer(const ActivationShape& shape, ActivationSavings savings);

/// Bytes of activations on the first pipeline stage. It holds those of as many layers as the model
/// has, times 1 + (p-1)/(p·v) when interleaved with v > 1 chunks (ibid., section 4.2.3).
double first_stage_activation_bytes(const ActivationShape& shape, ActivationSavings savings,
                                    double layers, double pipeline_parallel, double chunks);

/// Bytes of parameters, gradients and optimizer states on one rank, for the blocks of a GPT alone:
/// 18 bytes per parameter (Megatron-LM's 16-bit training), 12 h² parameters per block (ibid.).
double gpt_state_bytes(double hidden, double layers, double tensor_parallel,
                       double pipeline_parallel);

/// Days of training for `flops` = tokens × flops per token, when all devices together reach
/// `flops_per_second`.
double training_days(double flops, double flops_per_second);

}  // namespace lockstep
