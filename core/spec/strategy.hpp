// StrategySpec: how to train. Every default is written here and nowhere else.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace lockstep {

enum class PipelineSchedule { GPipe, OneFOneB };

/// When FSDP drops a unit's gathered parameters after forward (torchtitan's names).
enum class ReshardAfterForward {
  Default,  // always without pipeline parallelism, never with it
  Always,
  Never,
};

struct StrategySpec {
  // Degrees of the mesh, outermost first: pp, dp_replicate, dp_shard, tp; tp varies fastest.
  int data_parallel_replicate_degree = 1;  // DDP: gradients all-reduced
  int data_parallel_shard_degree = 1;      // FSDP: parameters, gradients, optimizer sharded
  int tensor_parallel_degree = 1;
  int pipeline_parallel_degree = 1;
  PipelineSchedule pipeline_parallel_schedule = PipelineSchedule::OneFOneB;
  int pipeline_parallel_microbatches = 1;               // per local batch
  int pipeline_parallel_virtual_stages = 1;             // model chunks per rank
  std::vector<int> pipeline_parallel_layers_per_stage;  // blocks; empty: balanced by flops

  ReshardAfterForward fsdp_reshard_after_forward = ReshardAfterForward::Default;
  int fsdp_prefetch = 1;            // units gathered ahead of the one in use
  Bytes bucket_cap{25 << 20};       // DDP: a bucket closes when it reaches this size
  Bytes first_bucket_cap{1 << 20};  // DDP: the bucket that is reduced first
  bool overlap_grad_reduce = true;  // false: reduce after the whole backward

  int data_parallel_degree() const {
    return data_parallel_replicate_degree * data_parallel_shard_degree;
  }
  int world_size() const {
    return data_parallel_degree() * tensor_parallel_degree * pipeline_parallel_degree;
  }
  int num_stages() const { return pipeline_parallel_degree * pipeline_parallel_virtual_stages; }
  bool operator==(const StrategySpec&) const = default;
};

}  // namespace lockstep
