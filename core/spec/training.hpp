// TrainingSpec, OptimizerSpec: batch, data, numbers of the optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/dtype.hpp"

namespace lockstep {

struct TrainingSpec {
  int seq_len = 1024;        // tokens; of a vision model 1: an image has one target
  int local_batch_size = 1;  // sequences (images) per data-parallel rank and forward-backward pass
  int global_batch_size = -1;  // sequences per optimizer step; -1: local_batch_size × dp
  int steps = 10;
  double max_norm = 1.0;  // gradient clipping by global norm; 0: off
  DType dtype = DType::F32;
  std::uint64_t seed = 42;
  std::string dataset;    // file, folder or token shard (.bin); relative to the scenario file;
                          // empty: a deterministic synthetic stream. Of a vision model:
                          // CIFAR-10's binary version, a file or the folder of its data_batch files
  bool reshuffle = true;  // another order of samples every epoch
  double total_tokens = 0;  // of the whole training (images of a vision model); 0: not known
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

enum class DecayType { Linear, Cosine };

struct LrSchedulerSpec {
  int warmup_steps = 0;    // linear from lr/warmup_steps to lr
  double decay_ratio = 0;  // last part of the steps over which lr decays; 0: constant
  DecayType decay_type = DecayType::Linear;
  double min_lr_factor = 0;       // lr at the end, as a factor
  bool scale_with_ranks = false;  // lr is per data-parallel rank: times their number (Goyal et al.
                                  // 2017, the linear scaling rule)
  bool operator==(const LrSchedulerSpec&) const = default;
};

/// Learning rate of 0-based `step` of `steps`.
double learning_rate(const OptimizerSpec& optimizer, const LrSchedulerSpec& schedule, int step,
                     int steps);

}  // namespace lockstep
