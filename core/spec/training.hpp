// TrainingSpec: the batch, the data, and how the learning rate changes.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/dtype.hpp"
#include "core/base/learning_rate.hpp"
#include "core/base/loss_scale.hpp"
#include "core/base/non_finite.hpp"
#include "core/spec/optimizer.hpp"
#include "core/spec/part_dtype.hpp"

namespace lockstep {

/// How products in float32 are computed (PyTorch's backends.cuda.matmul and cudnn allow_tf32).
enum class Float32Products {
  Highest,  // in float32
  Tf32,  // on tensor cores, whose factors are rounded to 10 bits of mantissa, where there are any
};

/// The formats of products in 8 bits (Transformer Engine's Format, Megatron-LM's --fp8-format).
enum class Fp8Format {
  None,
  E4M3,    // of all factors
  Hybrid,  // E4M3 of activations and weights, E5M2 of gradients
};
/// Which elements share a scale (Megatron-LM's --fp8-recipe).
enum class Fp8Scaling {
  Delayed,     // all of a tensor, by its largest magnitudes in earlier steps (NVIDIA Transformer
               // Engine's DelayedScaling)
  Tensorwise,  // all of a tensor, as the ranks together hold it for a microbatch
  Blockwise,   // 128 of a row that is summed over; of weights, 128 x 128 (DeepSeek-AI 2024,
               // DeepSeek-V3, section 3.3.2; Transformer Engine's Float8BlockScaling)
  Mxfp8,       // 32 of a row that is summed over (OCP Microscaling Formats 1.0)
};

/// Which of a tensor's largest magnitudes in earlier steps gives its scale (Megatron-LM's
/// --fp8-amax-compute-algo).
enum class Fp8AmaxAlgo {
  Max,         // the largest of those that are kept
  MostRecent,  // that of the last step
};

struct TrainingSpec {
  int seq_len = 1024;        // tokens; 1 for a vision model, because an image has one target
  int local_batch_size = 1;  // sequences (images) per data-parallel rank and forward-backward pass
  int global_batch_size = -1;  // sequences per optimizer step; -1: local_batch_size × dp
  int steps = 10;
  /// Parts of the rows of a microbatch for which logits exist at a time. With several, the output
  /// layer computes the loss in its backward pass, one part after the other.
  int loss_chunks = 1;
  double max_norm = 1.0;     // gradients are clipped to this global norm; 0: off
  DType dtype = DType::F32;  // of optimizer states, and of what the next three leave open
  PartDType mixed_precision_param = PartDType::Default;   // of gathered parameters and activations
  PartDType mixed_precision_reduce = PartDType::Default;  // of gradients when they are summed
  PartDType mixed_precision_buffer = PartDType::Default;  // of batch norm's running statistics
  Float32Products float32_matmul = Float32Products::Highest;  // PyTorch's defaults
  Float32Products float32_convolution = Float32Products::Tf32;
  Fp8Format fp8 = Fp8Format::None;  // of the products of linear layers of blocks
  Fp8Scaling fp8_recipe = Fp8Scaling::Blockwise;
  int fp8_block_size = 0;  // elements of a row that share a scale; 0: as many as fp8_recipe says
  int fp8_amax_history_len = 1024;  // with delayed: of so many steps; Transformer Engine's defaults
  Fp8AmaxAlgo fp8_amax_compute_algo = Fp8AmaxAlgo::Max;
  int fp8_margin =
      0;  // with delayed: scales leave room for values that are 2^margin times as large
  int num_layers_at_start_in_bf16 = 0;  // with fp8, blocks that multiply in the parameters' type
  int num_layers_at_end_in_bf16 = 0;
  bool stochastic_rounding = false;  // the optimizer rounds bfloat16 parameters at random
  std::uint64_t seed = 42;
  /// A text file, a folder or a token shard (.bin); for a vision model, a file of CIFAR-10's binary
  /// version or the folder of its data_batch files. The path is relative to the scenario file.
  /// Empty: a deterministic synthetic stream.
  std::string dataset;
  // The next five are of packed sequences: several documents, each of which ends with the token
  // eod_token, stand one behind the other in each. The first three have the names and the meaning
  // of Megatron-LM's options.
  bool reset_attention_mask = false;  // attention does not look across the end of a document
  bool reset_position_ids = false;    // positions count from where a document begins
  bool eod_mask_loss = false;         // the token behind the end of a document is not learned
  int eod_token = -1;                 // -1: not given
  double mean_document_length = 0;    // tokens, with the end; attention is charged after it
  /// Of a model that is not causal: the share of a sequence's tokens that are chosen, and whose
  /// prediction is learned, rounded to a whole number of one or more (Scenario::masked_tokens).
  double mask_prob = 0.15;
  /// Dropout (Srivastava et al. 2014) in training, the shares of elements that are dropped: of what
  /// attention and the feed-forward network add to the residual, of the embeddings' sum, and of
  /// attention's probabilities.
  double residual_dropout = 0;
  double embedding_dropout = 0;
  double attention_dropout = 0;
  bool reshuffle = true;    // every epoch has another order of samples
  double total_tokens = 0;  // tokens (or images) of the whole training; 0: not known
  NonFinite on_nonfinite = NonFinite::Stop;
  double skip_loss_zscore = 0;  // SpikeLimits::loss
  double skip_grad_zscore = 0;  // SpikeLimits::grad_norm

  bool has_documents() const { return reset_attention_mask || eod_mask_loss; }
  /// Whether a tensor in 8 bits has one scale.
  bool scales_tensors() const {
    return fp8_recipe == Fp8Scaling::Tensorwise || fp8_recipe == Fp8Scaling::Delayed;
  }
  /// Elements of a row that share a scale; 0: all do.
  int fp8_block() const {
    if (scales_tensors()) return 0;
    return fp8_block_size > 0 ? fp8_block_size : fp8_recipe == Fp8Scaling::Blockwise ? 128 : 32;
  }
  DType param_dtype() const { return type_of(mixed_precision_param, dtype); }
  DType reduce_dtype() const { return type_of(mixed_precision_reduce, dtype); }
  DType buffer_dtype() const { return type_of(mixed_precision_buffer, dtype); }
  /// Whether gradients pass through float16, so that the loss is scaled ([loss_scale]).
  bool scales_loss() const { return param_dtype() == DType::F16 || reduce_dtype() == DType::F16; }
  /// Whether the optimizer updates a copy of the parameters in `dtype`, which is then rounded.
  bool keeps_master() const { return param_dtype() != dtype; }
  bool operator==(const TrainingSpec&) const = default;
};

struct LrSchedulerSpec {
  int warmup_steps = 0;    // steps over which lr rises linearly, from lr/warmup_steps to lr
  double decay_ratio = 0;  // the last part of the steps, in which lr decays; 0: it stays constant
  DecayType decay_type = DecayType::Linear;
  double min_lr_factor = 0;  // lr at the end, as a factor
  /// lr is that of one data-parallel rank and is multiplied by their number (the linear scaling
  /// rule, Goyal et al. 2017).
  bool scale_with_ranks = false;
  bool operator==(const LrSchedulerSpec&) const = default;
};

/// The learning rate of a training of `steps` steps on one data-parallel rank.
LearningRate learning_rate(const OptimizerSpec& optimizer, const LrSchedulerSpec& schedule,
                           int steps);

}  // namespace lockstep
