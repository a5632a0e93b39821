// Scenario: model + cluster + strategy + training, and what the user expects of the result.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/learning_rate.hpp"
#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/cluster/what_if.hpp"
#include "core/spec/activation_checkpoint.hpp"
#include "core/spec/model.hpp"
#include "core/spec/strategy.hpp"
#include "core/spec/training.hpp"

namespace lockstep {

struct CheckpointSpec {
  int interval = 0;  // steps between checkpoints; 0: none
  std::string folder = "checkpoints";
  bool operator==(const CheckpointSpec&) const = default;
};

/// One line of [expect]: report.json's `key` (dotted path, "losses.0", "step_time_s") must lie
/// within tolerance of `value`.
struct Expectation {
  std::string key;
  double value = 0;
  double relative = 0;  // |measured - value| <= relative * |value| + absolute
  double absolute = 0;
  std::optional<double> min, max;  // instead of value ± tolerance
  SourceSpan where;                // for messages; equal expectations may stand in different files
  bool operator==(const Expectation& other) const {
    return key == other.key && value == other.value && relative == other.relative &&
           absolute == other.absolute && min == other.min && max == other.max;
  }
};

struct Scenario {
  std::string name;
  std::string directory;  // of the scenario file; relative paths in it start here
  ModelSpec model;
  ClusterSpec cluster;
  StrategySpec strategy;
  TrainingSpec training;
  ActivationCheckpointSpec activation_checkpoint;
  OptimizerSpec optimizer;
  LrSchedulerSpec lr_scheduler;
  CheckpointSpec checkpoint;
  std::optional<CostsSpec> costs;  // exactly for the synthetic model
  WhatIfSpec what_if;
  std::vector<Expectation> expect;

  /// Passes of gradient accumulation: global_batch / (local_batch * dp).
  int accumulation_steps() const;
  /// Microbatches of one step and data-parallel rank: accumulation × pipeline microbatches.
  int num_microbatches() const;
  /// Microbatches between two updates of the weights: all, where the pipeline drains first.
  int microbatches_per_update() const;
  int updates_per_step() const { return num_microbatches() / microbatches_per_update(); }
  /// Gradients are scattered after every microbatch (StrategySpec::accumulate_sharded_gradients).
  bool accumulates_shards() const;
  int microbatch_size() const;           // sequences
  int global_batch_size() const;         // sequences, resolved
  std::int64_t tokens_per_step() const;  // targets: tokens, or images
  /// Tokens that a rank holds of every sequence: its slice, where context parallelism divides it.
  std::int64_t own_seq_len() const;
  /// Where in the sequence the i-th token stands that rank `cp` of "cp" holds: in its slice; where
  /// ranks attend with own tokens only, in the cp-th piece of 2 P from the front or the back, so
  /// that all have as many earlier tokens to attend to.
  std::int64_t position(int cp, std::int64_t i) const;
  LearningRate learning_rate() const;
  /// TrainingSpec::dataset as a path that does not depend on `directory`; empty: synthetic data.
  std::string dataset_path() const;
  bool operator==(const Scenario&) const = default;
};

}  // namespace lockstep
