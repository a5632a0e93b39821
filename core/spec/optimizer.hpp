// OptimizerSpec: how weights are updated. The table of optimizers says what a file of settings has
// to know of each; how one updates is its rule (core/lower/update).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/dtype.hpp"
#include "core/spec/part_dtype.hpp"

namespace lockstep {

enum class OptimizerKind {
  AdamW,  // decoupled weight decay (Loshchilov & Hutter)
  Adam,   // weight decay is added to the gradient (Kingma & Ba, as torch.optim.Adam)
  Sgd,    // with momentum; weight decay is added to the gradient
  Muon,   // orthogonalized momentum for the matrices of blocks (Jordan et al. 2024), AdamW for all
          // else
  Adafactor,  // second moments by rows and columns (Shazeer & Stern 2018)
  Lion,       // steps by the sign of an interpolated momentum (Chen et al. 2023)
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

// ---------------------------------------------------------------- the table of optimizers

struct OptimizerRow {
  OptimizerKind kind;
  std::string_view name;  // in a scenario, and as PyTorch and DeepSpeed call it
  /// The keys of [optimizer] that it reads beside those that all do.
  std::string_view keys;
  bool in_torchtitan = false;      // whether torchtitan 0.2.x has it, by the same name
  std::string_view megatron = {};  // what Megatron-LM calls it; empty: it does not have it
  /// How many tensors DeepSpeed swaps of a parameter when it is updated, and counts in
  /// buffer_count: the parameter, its gradient and its moments.
  int swapped_tensors = 4;
  bool reads(std::string_view key) const {
    for (std::string_view rest = keys; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (rest.substr(0, end) == key) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  }
};

inline constexpr std::array kOptimizers = {
    OptimizerRow{OptimizerKind::AdamW, "AdamW", "beta1 beta2 eps", true, "adam"},
    OptimizerRow{OptimizerKind::Adam, "Adam", "beta1 beta2 eps", true, "adam"},
    OptimizerRow{OptimizerKind::Sgd, "SGD", "momentum", false, "sgd", 3},
    OptimizerRow{OptimizerKind::Muon, "Muon",
                 "beta1 beta2 eps momentum nesterov muon_lr ns_steps adjust_lr_fn ns_dtype", false,
                 "muon"},
    OptimizerRow{OptimizerKind::Adafactor, "Adafactor",
                 "decay_rate clip_threshold eps_square eps_scale scale_parameter relative_step "
                 "first_moment_decay"},
    OptimizerRow{OptimizerKind::Lion, "Lion", "beta1 beta2", false, "", 3},
};
constexpr const OptimizerRow& info(OptimizerKind kind) {
  for (const OptimizerRow& row : kOptimizers) {
    if (row.kind == kind) return row;
  }
  return kOptimizers[0];
}

/// The names of the optimizers that read a key that not all do: "SGD or Muon"; empty: all do.
std::string optimizers_that_read(std::string_view key);

}  // namespace lockstep
