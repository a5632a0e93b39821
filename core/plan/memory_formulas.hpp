// Published memory formulas, as functions: to stand beside the planned memory of a program, which
// is exact. GB are 10^9 bytes, GiB 2^30.
#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes per parameter of what training keeps.
struct StateWidths {
  double parameters = 4, gradients = 4, optimizer = 8;  // float32 throughout: 16 in all
};
inline constexpr StateWidths kMixedFp16{2, 2, 12};  // with master weights: Rajbhandari et al. 2020

struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
  double total() const { return parameters + gradients + optimizer; }
};

/// Model states per rank under ZeRO `stage` (0: DDP) on `ranks` data-parallel ranks. Rajbhandari et
/// al. 2020, figure 1: stage 1 shards the optimizer states, 2 the gradients too, 3 the parameters.
StateBytes model_states(double parameters, int stage, int ranks, const StateWidths& widths);

enum class ActivationSavings {
  None,               // tensor parallelism only
  SequenceParallel,   // norms and residuals sharded too
  Selective,          // attention scores recomputed
  SequenceSelective,  // both
  Full,               // only each layer's input kept
};

struct ActivationShape {
  double batch = 1, seq = 1, hidden = 1, heads = 1;
  double tensor_parallel = 1;
};

/// Bytes of one layer's activations per microbatch in fp16, attention scores stored. Korthikanti et
/// al. 2022, table 2: sbh(10 + 24/t + 5as/(ht)) and its variants.
double activation_bytes_per_layer(const ActivationShape& shape, ActivationSavings savings);

/// The first pipeline stage holds as many layers' worth as the model has, times 1 + (p-1)/(p·v)
/// when interleaved with v > 1 chunks (ibid., section 4.2.3).
double first_stage_activation_bytes(const ActivationShape& shape, ActivationSavings savings,
                                    double layers, double pipeline_parallel, double chunks);

/// Bytes of parameters, gradients and optimizer states on one rank, 18 per parameter (Megatron-LM's
/// 16-bit training), of a GPT's blocks alone: 12 h² parameters each (ibid.).
double gpt_state_bytes(double hidden, double layers, double tensor_parallel,
                       double pipeline_parallel);

/// Days of training: tokens × flops_per_token over a rate of `flops_per_second` altogether.
double training_days(double flops, double flops_per_second);

}  // namespace lockstep
