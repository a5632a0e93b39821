// TrainingSpec, OptimizerSpec: the batch, the data, and the figures of the optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/dtype.hpp"
#include "core/base/learning_rate.hpp"
#include "core/base/loss_scale.hpp"
#include "core/base/non_finite.hpp"

namespace lockstep {

/// How products in float32 are computed (PyTorch's backends.cuda.matmul and cudnn allow_tf32).
enum class Float32Products {
  Highest,  // in float32
  Tf32,  // on tensor cores, whose factors are rounded to 10 bits of mantissa, where there are any
};

/// The type of a part of training: its own, or (Default) that of training.dtype.
enum class PartDType { Default, F32, BF16, F16 };
constexpr DType type_of(PartDType part, DType otherwise) {
  switch (part) {
    case PartDType::F32:
      return DType::F32;
    case PartDType::BF16:
      return DType::BF16;
    case PartDType::F16:
      return DType::F16;
    case PartDType::Default:
      break;
  }
  return otherwise;
}

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

enum class OptimizerKind {
  AdamW,  // decoupled weight decay (Loshchilov & Hutter)
  Adam,   // weight decay is added to the gradient (Kingma & Ba, as torch.optim.Adam)
  Sgd,    // with momentum; weight decay is added to the gradient
  Muon,   // orthogonalized momentum for the matrices of blocks (Jordan et al. 2024), AdamW for all
          // else
  Adafactor,  // second moments by rows and columns (Shazeer & Stern 2018)
};

/// How far Muon moves a matrix, beside the learning rate (the names are those of torch.optim.Muon).
enum class AdjustLr {
  Original,       // sqrt(max(1, rows / columns)) (Jordan et al. 2024)
  MatchRmsAdamW,  // 0.2 sqrt(max(rows, columns)), about as far as AdamW does (Liu et al. 2025)
};

/// The type of the states that the optimizer keeps of every parameter: that of training.dtype
/// (Default), another, or 8 bits with a scale for every block (core/base/quantized_state.hpp).
enum class StateDType { Default, F32, BF16, U8 };

/// Which parameters weight decay is for.
enum class DecayedParameters {
  All,       // as PyTorch's optimizers do without parameter groups
  Matrices,  // those of two or more dimensions: no norms and biases (nanoGPT, Megatron-LM)
};

struct OptimizerSpec {
  OptimizerKind name = OptimizerKind::AdamW;
  double lr = 8e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  DecayedParameters weight_decay_on = DecayedParameters::All;
  double momentum = 0.9;  // SGD, Muon
  bool nesterov = true;   // Muon: the gradient is added to the momentum once more
  double muon_lr = 0;     // Muon: the learning rate of matrices at its highest; 0: lr
  int ns_steps = 5;       // Muon: Newton-Schulz iterations
  AdjustLr adjust_lr_fn = AdjustLr::Original;
  /// Muon: the type in which matrices are orthogonalized, and gathered for that. Default: that of
  /// training.dtype.
  PartDType ns_dtype = PartDType::Default;
  // Adafactor (Shazeer and Stern 2018, algorithms 4 to 6, with means in the place of sums as in
  // transformers.Adafactor).
  double decay_rate = -0.8;       // step t keeps 1 - t^decay_rate of the second moments
  double clip_threshold = 1;      // the most that the root mean square of an update may be
  double eps_square = 1e-30;      // is added to squares of gradients
  double eps_scale = 1e-3;        // with scale_parameter, the least scale of a parameter
  bool scale_parameter = true;    // steps are in proportion to a parameter's root mean square
  bool relative_step = false;     // at step t the rate is at most 1 / sqrt(t)
  double first_moment_decay = 0;  // of the updates; 0: no first moment is kept
  StateDType state_dtype = StateDType::Default;
  int block_size = 256;  // elements that share a scale, with StateDType::U8
  /// Whether it keeps two moments of every gradient.
  bool is_adam() const { return name == OptimizerKind::AdamW || name == OptimizerKind::Adam; }
  bool is_muon() const { return name == OptimizerKind::Muon; }
  bool is_adafactor() const { return name == OptimizerKind::Adafactor; }
  /// Muon's learning rate of matrices, as a multiple of that of other parameters.
  double muon_lr_factor() const { return muon_lr > 0 ? muon_lr / lr : 1; }
  /// What the update of a matrix is multiplied by, beside the learning rate.
  double adjustment(std::int64_t rows, std::int64_t cols) const;
  /// Elements of the blocks that shards are made of: block_size, or 1 if states have no blocks.
  int state_block() const { return state_dtype == StateDType::U8 ? block_size : 1; }
  /// The type of the states, given that of training; of 8-bit ones, that of their bytes.
  DType state_type(DType training) const;
  /// Bytes of a state per parameter, scales included.
  double state_bytes(DType training) const;
  bool operator==(const OptimizerSpec&) const = default;
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
