// TrainingSpec, OptimizerSpec: batch, data, numbers of the optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/dtype.hpp"
#include "core/base/learning_rate.hpp"

namespace lockstep {

/// A type of its own for a part of training, or that of training.dtype.
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

struct TrainingSpec {
  int seq_len = 1024;        // tokens; of a vision model 1: an image has one target
  int local_batch_size = 1;  // sequences (images) per data-parallel rank and forward-backward pass
  int global_batch_size = -1;  // sequences per optimizer step; -1: local_batch_size × dp
  int steps = 10;
  double max_norm = 1.0;     // gradient clipping by global norm; 0: off
  DType dtype = DType::F32;  // of optimizer states, and of all that the next three do not name
  PartDType mixed_precision_param = PartDType::Default;   // parameters as gathered, activations
  PartDType mixed_precision_reduce = PartDType::Default;  // gradients as added up and reduced
  PartDType mixed_precision_buffer = PartDType::Default;  // running statistics of batch norm
  bool stochastic_rounding = false;  // bfloat16 parameters are rounded at random by the optimizer
  std::uint64_t seed = 42;
  std::string dataset;    // file, folder or token shard (.bin); relative to the scenario file;
                          // empty: a deterministic synthetic stream. Of a vision model:
                          // CIFAR-10's binary version, a file or the folder of its data_batch files
  bool reshuffle = true;  // another order of samples every epoch
  double total_tokens = 0;  // of the whole training (images of a vision model); 0: not known

  DType param_dtype() const { return type_of(mixed_precision_param, dtype); }
  DType reduce_dtype() const { return type_of(mixed_precision_reduce, dtype); }
  DType buffer_dtype() const { return type_of(mixed_precision_buffer, dtype); }
  /// True: the optimizer updates a copy of the parameters in `dtype`, which is then rounded.
  bool keeps_master() const { return param_dtype() != dtype; }
  bool operator==(const TrainingSpec&) const = default;
};

enum class OptimizerKind {
  AdamW,  // decoupled weight decay on every parameter (Loshchilov & Hutter)
  Sgd,    // with momentum; weight decay joins the gradient
};

struct OptimizerSpec {
  OptimizerKind name = OptimizerKind::AdamW;
  double lr = 8e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.9;  // SGD
  bool operator==(const OptimizerSpec&) const = default;
};

struct LrSchedulerSpec {
  int warmup_steps = 0;    // linear from lr/warmup_steps to lr
  double decay_ratio = 0;  // last part of the steps over which lr decays; 0: constant
  DecayType decay_type = DecayType::Linear;
  double min_lr_factor = 0;       // lr at the end, as a factor
  bool scale_with_ranks = false;  // lr is per data-parallel rank: times their number (Goyal et al.
                                  // 2017, the linear scaling rule)
  bool operator==(const LrSchedulerSpec&) const = default;
};

/// Of a training of `steps` steps, on one data-parallel rank.
LearningRate learning_rate(const OptimizerSpec& optimizer, const LrSchedulerSpec& schedule,
                           int steps);

}  // namespace lockstep
