// StrategySpec: how to train. Every default is written here and nowhere else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {

/// When FSDP drops a unit's gathered parameters after forward (torchtitan's names).
enum class ReshardAfterForward {
  Default,  // always without pipeline parallelism, never with it
  Always,
  Never,
};

/// Whether gradients are scattered after every microbatch, and their shards added up: more is sent,
/// and whole gradients of one unit at a time are kept.
enum class AccumulateShards {
  Default,  // as FSDP and DeepSpeed do: with zero_stage 2 or 3, and without pipeline parallelism
  Always,
  Never,
};

/// When pipeline ranks post their messages, and who waits for them (core/lower/passes/post.cpp).
enum class P2pPosting { Async, Preposted, Fused, Blocking };
/// What lies in host memory between its uses, and is updated there.
enum class Offload {
  None,
  Optimizer,   // optimizer states and gradients at the step (ZeRO-Offload)
  Parameters,  // parameters too: FSDP's CPUOffload, DeepSpeed's offload_param
};

/// What ranks that divide the tokens of a sequence do about attention (core/model/attention.hpp).
enum class ContextParallelMethod {
  Ulysses,    // exchange tokens for heads
  AllGather,  // bring the keys and values of all tokens together
};

struct StrategySpec {
  // Degrees of the mesh, outermost first: pp, dp_replicate, dp_shard, cp, tp; tp varies fastest.
  int data_parallel_replicate_degree = 1;  // DDP: gradients all-reduced
  int data_parallel_shard_degree = 1;      // ranks that share what zero_stage says
  int zero_stage = 3;                      // 0: nothing (more replicas); 1: optimizer states;
                                           // 2: gradients too; 3: parameters too (FSDP)
  int context_parallel_degree = 1;         // ranks that divide the tokens of every sequence
  ContextParallelMethod context_parallel_method = ContextParallelMethod::Ulysses;
  int tensor_parallel_degree = 1;
  bool enable_sequence_parallel = false;  // rows between linear layers divided over tp, too
  int expert_parallel_degree = 1;         // ranks, of those of dp_shard, that divide the experts
  int pipeline_parallel_degree = 1;
  PipelineSchedule pipeline_parallel_schedule = PipelineSchedule::OneFOneB;
  int pipeline_parallel_microbatches = 1;    // per local batch
  int pipeline_parallel_virtual_stages = 1;  // model chunks per rank
  // Interleaved1F1B: microbatches of one chunk that follow each other; 0: m / max(1, m/p) (torch)
  int pipeline_parallel_microbatch_group_size = 0;
  // ZB-1p, ZB-2p: part of an activation that lives on from I to W, in (0, 1]
  double pipeline_parallel_kept_after_input = 1;
  std::vector<int> pipeline_parallel_layers_per_stage;  // blocks; empty: balanced by flops
  P2pPosting pipeline_parallel_p2p = P2pPosting::Async;
  // PipeDream, PipeDream-2BW: microbatches from update to update; 0: one, or the pipeline degree
  int pipeline_parallel_update_every = 0;
  std::string pipeline_parallel_schedule_csv;   // file; given, it replaces the schedule by name
  Schedule pipeline_parallel_schedule_actions;  // what that file holds

  ReshardAfterForward fsdp_reshard_after_forward = ReshardAfterForward::Default;
  int fsdp_reshard_degree = 0;                  // ranks that share a copy after forward; 0: all
  int fsdp_prefetch = 1;                        // units gathered ahead of the one in use
  int fsdp_backward_prefetch = -1;              // the same in backward; -1: as in forward
  std::int64_t fsdp_min_num_params = 0;         // blocks of fewer stay gathered, as root units do
  std::int64_t fsdp_persistence_threshold = 0;  // units of at most this many: parameters whole
  int fsdp_max_active_stages = 3;               // virtual stages gathered at a time; 0: all
  AccumulateShards accumulate_sharded_gradients = AccumulateShards::Default;
  Offload offload = Offload::None;
  Bytes bucket_cap{25 << 20};           // DDP: a bucket closes when it reaches this size
  Bytes first_bucket_cap{1 << 20};      // DDP: the bucket that is reduced first
  bool gradient_as_bucket_view = true;  // false: copied into buckets and back (PyTorch's default)
  bool overlap_param_gather = false;    // ZeRO-1, ZeRO-2: gather what the last step updated during
                                        // forward instead of after the update
  bool overlap_grad_reduce = true;      // false: reduce after the whole backward
  bool sync_batch_norm = false;         // statistics over all data-parallel ranks

  int data_parallel_degree() const {
    return data_parallel_replicate_degree * data_parallel_shard_degree;
  }
  /// Ranks whose gradients of the same parameters add up: each has seen its own tokens.
  int gradient_ranks() const { return data_parallel_degree() * context_parallel_degree; }
  /// Ranks over which optimizer states, and by stage gradients and parameters, are sharded.
  int state_shards() const {
    return zero_stage >= 1 ? data_parallel_shard_degree * context_parallel_degree : 1;
  }
  /// Likewise those of the experts that a rank holds.
  int expert_shards() const {
    return zero_stage >= 1 ? shards_beside_experts() * context_parallel_degree : 1;
  }
  /// True: gathered parameters are dropped after forward to what fewer ranks share.
  bool reshards_to_fewer() const {
    return state_shards() > 1 && zero_stage == 3 && fsdp_reshard_degree > 0 &&
           fsdp_reshard_degree < state_shards();
  }
  bool gathers_keys() const {
    return context_parallel_degree > 1 &&
           context_parallel_method == ContextParallelMethod::AllGather;
  }
  bool sequence_parallel() const { return enable_sequence_parallel && tensor_parallel_degree > 1; }
  /// Ranks that hold copies of the same states.
  int state_replicas() const { return gradient_ranks() / state_shards(); }
  /// Of the ranks of dp_shard, those that hold the same experts.
  int shards_beside_experts() const { return data_parallel_shard_degree / expert_parallel_degree; }
  int world_size() const {
    return gradient_ranks() * tensor_parallel_degree * pipeline_parallel_degree;
  }
  WeightVersions weight_versions() const {
    return pipeline_parallel_schedule_csv.empty() ? rules_of(pipeline_parallel_schedule).versions
                                                  : WeightVersions::One;
  }
  int num_stages() const { return pipeline_parallel_degree * pipeline_parallel_virtual_stages; }
  bool operator==(const StrategySpec&) const = default;
};

}  // namespace lockstep
