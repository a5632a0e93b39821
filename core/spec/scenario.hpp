// Scenario: model, cluster, strategy and training, and what the user expects of the result.
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
#include "core/spec/campaign.hpp"
#include "core/spec/model.hpp"
#include "core/spec/strategy.hpp"
#include "core/spec/training.hpp"

namespace lockstep {

/// The loss of data that are not trained on.
struct ValidationSpec {
  std::string dataset;  // as TrainingSpec::dataset
  int freq = 0;         // training steps from one validation to the next; 0: none
  int steps = 10;       // how many global batches are looked at: the first in the order of seed 0
  bool operator==(const ValidationSpec&) const = default;
};

struct CheckpointSpec {
  int interval = 0;                    // steps from one checkpoint to the next; 0: none
  std::string folder = "checkpoints";  // inside the run folder
  int keep_latest_k = 0;               // older checkpoints are deleted; 0: none is
  int keep_every = 0;                  // those of steps that it divides are kept; 0: none for that
  bool operator==(const CheckpointSpec&) const = default;
};

/// One line of [expect]: the value of report.json at `key` (a dotted path such as "losses.0" or
/// "step_time_s") must be `value`, within a tolerance.
struct Expectation {
  std::string key;
  double value = 0;
  double relative = 0;  // |measured - value| <= relative * |value| + absolute
  double absolute = 0;
  std::optional<double> min, max;  // given instead of a value with a tolerance
  SourceSpan where;                // for messages; not compared by operator==
  bool operator==(const Expectation& other) const {
    return key == other.key && value == other.value && relative == other.relative &&
           absolute == other.absolute && min == other.min && max == other.max;
  }
};

struct Scenario {
  std::string name;
  std::string directory;  // the folder of the scenario file, in which relative paths start
  ModelSpec model;
  ClusterSpec cluster;
  StrategySpec strategy;
  TrainingSpec training;
  ActivationCheckpointSpec activation_checkpoint;
  OptimizerSpec optimizer;
  LrSchedulerSpec lr_scheduler;
  LossScaling loss_scale;  // of float16; other types have the range that gradients need
  CheckpointSpec checkpoint;
  ValidationSpec validation;
  CampaignSpec campaign;
  std::optional<CostsSpec> costs;  // given exactly if the model is the synthetic one
  WhatIfSpec what_if;
  std::vector<Expectation> expect;

  /// Passes of gradient accumulation: global_batch_size / (local_batch_size × data-parallel ranks).
  int accumulation_steps() const;
  /// Microbatches of one step and data-parallel rank: accumulation × pipeline microbatches.
  int num_microbatches() const;
  /// Microbatches from one update of the weights to the next: all of a step, except in PipeDream's
  /// schedules, which update without draining the pipeline.
  int microbatches_per_update() const;
  int updates_per_step() const { return num_microbatches() / microbatches_per_update(); }
  /// Gradients are scattered after every microbatch (StrategySpec::accumulate_sharded_gradients).
  bool accumulates_shards() const;
  int microbatch_size() const;           // in sequences
  int global_batch_size() const;         // in sequences, also if the file does not give it
  std::int64_t tokens_per_step() const;  // targets of a step: tokens, or images
  /// Tokens of every sequence that are chosen to be predicted, if the model is an encoder; else 0.
  std::int64_t masked_tokens() const;
  /// How many tensor-parallel ranks hold the same key and value heads, of which there are fewer
  /// than ranks.
  int kv_replicas() const;
  /// Tokens of every sequence that a rank holds; with context parallelism, its part of them.
  std::int64_t own_seq_len() const;
  /// The position in the sequence of the i-th token that the cp-th of the context-parallel ranks
  /// holds. A rank holds one contiguous slice of the sequence, unless keys and values go between
  /// key_ranks() parts of it. A part is then two pieces of 2 key_ranks(): one from the front and
  /// one from the back, so that the queries of all parts see equally many earlier tokens. The ranks
  /// that exchange tokens for heads hold a part together, as contiguous slices of its two pieces.
  std::int64_t position(int cp, std::int64_t i) const;
  /// The position at which piece 0 or 1 of such a part begins.
  std::int64_t piece_start(int part, int piece) const;
  LearningRate learning_rate() const;
  /// TrainingSpec::dataset as a path that does not depend on `directory`; empty for synthetic data.
  std::string dataset_path() const;
  std::string validation_path() const;  // likewise
  std::string nvme_path() const;        // likewise of StrategySpec::offload_nvme_path
  bool operator==(const Scenario&) const = default;
};

}  // namespace lockstep
