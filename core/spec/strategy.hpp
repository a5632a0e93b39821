// StrategySpec: how to train. Every default is written here and nowhere else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {

/// Whether FSDP drops the gathered parameters of a unit after its forward pass (torchtitan's
/// names).
enum class ReshardAfterForward {
  Default,  // as Always without pipeline parallelism, as Never with it
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
/// What lies beyond the device between its uses, and is updated in the host's memory.
enum class Offload {
  None,
  Optimizer,   // optimizer states, and the gradients for the update (ZeRO-Offload)
  Parameters,  // parameters, too (FSDP's CPUOffload, DeepSpeed's offload_param); those that stay
               // whole on every rank stay on the device
};

/// Where what is offloaded lies (DeepSpeed's names).
enum class OffloadDevice {
  Cpu,   // in the host's memory
  Nvme,  // on the node's drives (ZeRO-Infinity)
};

/// How ranks that divide the tokens of a sequence compute attention (core/model/attention.hpp).
enum class ContextParallelMethod {
  Ulysses,    // an all-to-all gives each rank all tokens of some heads
  AllGather,  // each rank gathers the keys and values of all tokens
  Ring,       // keys and values are passed round, and each rank has those of one other at a time
};

/// How the replicas of dp_replicate train apart, and are brought together now and then
/// (torchtitan's semi_sync_method).
enum class SemiSyncMethod {
  None,      // gradients are summed over all replicas in every step
  LocalSgd,  // parameters are averaged (Stich 2019, Lin et al. 2020)
  DiLoCo,  // an outer optimizer moves them by the mean way of the replicas (Douillard et al. 2023)
};

/// What [local_sgd] says.
struct LocalSgdSpec {
  SemiSyncMethod method = SemiSyncMethod::None;
  int sync_steps = 0;  // steps from one synchronization to the next
  // Of DiLoCo, whose outer optimizer is torch.optim.SGD. Its states are float32 (or float64).
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  bool outer_nesterov = true;
  bool offload = false;  // they lie in host memory between synchronizations
  bool operator==(const LocalSgdSpec&) const = default;
};

/// What [power_sgd] says: gradients are summed as products of low rank (Vogels et al. 2019), with
/// the names of PyTorch's powerSGD_hook.
struct PowerSgdSpec {
  int matrix_approximation_rank = 0;  // 0: gradients are summed as they are
  bool use_error_feedback = true;     // add to a gradient what was left out of the last one
  double min_compression_rate = 2;    // of a matrix that is worth it, in elements sent
  bool on() const { return matrix_approximation_rank > 0; }
  bool operator==(const PowerSgdSpec&) const = default;
};

struct StrategySpec {
  // The dimensions of the mesh, outermost first, are pp, dp_replicate, dp_shard, cp, tp; tp varies
  // fastest with the rank.
  int data_parallel_replicate_degree = 1;  // ranks that hold replicas, as in DDP
  int data_parallel_shard_degree = 1;      // ranks that shard what zero_stage says
  /// What is sharded: 0 nothing (all ranks are replicas); 1 optimizer states; 2 gradients, too; 3
  /// parameters, too (FSDP).
  int zero_stage = 3;
  int context_parallel_degree = 1;  // ranks that divide the tokens of every sequence
  ContextParallelMethod context_parallel_method = ContextParallelMethod::Ulysses;
  /// AllGather, Ring: how many neighbours exchange tokens for heads, so that keys and values go
  /// between fewer, larger parts of the sequence (USP, Fang and Zhao 2024).
  int context_parallel_ulysses_degree = 1;
  int tensor_parallel_degree = 1;
  bool enable_sequence_parallel = false;  // divide norms and residuals over tp by tokens, too
  /// With sequence parallelism: the parts in which rows are gathered and scattered, each beside the
  /// product of another part (asynchronous tensor parallelism); 1: in one, before or behind it.
  int tensor_parallel_chunks = 1;
  int expert_parallel_degree = 1;  // how many of the dp_shard ranks divide the experts
  /// Experts are divided over the ranks of tp, then cp, then dp_shard, instead of those of dp_shard
  /// alone (Megatron Core's parallel folding).
  bool expert_parallel_folding = false;
  /// How many ranks of tp divide each expert: 1, or all of them.
  int expert_tensor_parallel_degree = 1;
  int pipeline_parallel_degree = 1;
  PipelineSchedule pipeline_parallel_schedule = PipelineSchedule::OneFOneB;
  int pipeline_parallel_microbatches = 1;    // per local batch
  int pipeline_parallel_virtual_stages = 1;  // virtual stages (chunks of the model) per rank
  /// Interleaved1F1B: how many microbatches of one chunk follow each other. 0: m / max(1, m / p),
  /// as in PyTorch, for m microbatches and p ranks.
  int pipeline_parallel_microbatch_group_size = 0;
  /// ZB-1p, ZB-2p, ZB-V: the part of an activation that is kept from I to W, in (0, 1].
  double pipeline_parallel_kept_after_input = 1;
  std::vector<int> pipeline_parallel_layers_per_stage;  // in blocks; empty: balanced by flops
  P2pPosting pipeline_parallel_p2p = P2pPosting::Async;
  /// The ranks of pp divide the vocabulary, beside those of tp: every rank holds a part of the
  /// embedding and of the output layer (Yeung et al. 2024).
  bool vocabulary_parallel_pipeline = false;
  /// With it: how many microbatches more than without it are in flight, so that the passes of the
  /// output layer, which all ranks share, run beside others.
  int vocabulary_parallel_lag = 2;
  /// PipeDream, PipeDream-2BW: microbatches from one update of the weights to the next. 0: one for
  /// PipeDream, the pipeline degree for PipeDream-2BW.
  int pipeline_parallel_update_every = 0;
  std::string pipeline_parallel_schedule_csv;   // file that, if given, replaces the schedule's name
  Schedule pipeline_parallel_schedule_actions;  // the content of that file

  ReshardAfterForward fsdp_reshard_after_forward = ReshardAfterForward::Default;
  int fsdp_reshard_degree = 0;      // ranks that share the parameters after forward; 0: all
  int fsdp_prefetch = 1;            // how many units are gathered ahead of the one in use
  int fsdp_backward_prefetch = -1;  // the same in the backward pass; -1: as in forward
  /// Blocks of fewer parameters are no units of their own: they stay gathered, as embedding and
  /// head do.
  std::int64_t fsdp_min_num_params = 0;
  /// Units of at most this many parameters keep them whole on every rank.
  std::int64_t fsdp_persistence_threshold = 0;
  int fsdp_max_active_stages = 3;  // virtual stages gathered at a time; 0: all
  AccumulateShards accumulate_sharded_gradients = AccumulateShards::Default;
  /// With replicas of shards and gradients that are accumulated in shards: sum each microbatch's
  /// shards over the replicas, as fully_shard does unless set_requires_all_reduce(False) is called;
  /// false: sum their total once.
  bool all_reduce_each_microbatch = false;
  Offload offload = Offload::None;
  OffloadDevice offload_optimizer_device = OffloadDevice::Cpu;
  OffloadDevice offload_param_device = OffloadDevice::Cpu;  // with Offload::Parameters
  std::string offload_nvme_path;  // the folder for the files of a real run; nothing simulated
  /// Units whose states from a drive have room in host memory at a time. 0: as few as the next two
  /// need, that is one which is updated, one which is read and one which is written.
  int offload_buffer_count = 0;
  /// Whether the states of the next units are read while one is updated, and whether those of the
  /// last one are written meanwhile.
  bool offload_pipeline_read = true;
  bool offload_pipeline_write = true;
  Bytes bucket_cap{25 << 20};       // DDP: a bucket closes when it reaches this size
  Bytes first_bucket_cap{1 << 20};  // DDP: the bucket that is reduced first
  /// DDP: gradients are computed in the bucket. If false, they are copied into buckets and back,
  /// which is PyTorch's default.
  bool gradient_as_bucket_view = true;
  /// ZeRO-1, ZeRO-2: gather the updated parameters during the next forward pass, instead of
  /// directly after the update.
  bool overlap_param_gather = false;
  bool overlap_grad_reduce = true;  // false: reduce gradients after the whole backward pass
  bool sync_batch_norm = false;     // compute statistics over all data-parallel ranks
  /// ZeRO++ (Wang et al. 2023): gathers of parameters send codes of 8 bits, and all ranks compute
  /// with what these stand for.
  bool zero_quantized_weights = false;
  /// ZeRO++: gradients are exchanged as codes and added up where they arrive, instead of scattered.
  bool zero_quantized_gradients = false;
  int zero_quantized_gradients_bits = 4;  // or 8
  /// With it: so many neighbours exchange first, such as those of a node, and then every one of
  /// them with those at its place elsewhere. 0: as many as fsdp_reshard_degree, or else all at
  /// once.
  int zero_quantized_gradients_inner_degree = 0;
  std::int64_t zero_quantized_block_size = 2048;  // elements that have one scale
  LocalSgdSpec local_sgd;                         // of a section of its own
  PowerSgdSpec power_sgd;                         // likewise

  bool offloads_to_drive() const {
    return (offload != Offload::None && offload_optimizer_device == OffloadDevice::Nvme) ||
           (offload == Offload::Parameters && offload_param_device == OffloadDevice::Nvme);
  }
  int least_offload_buffers() const {
    return 1 + (offload_pipeline_read ? 1 : 0) + (offload_pipeline_write ? 1 : 0);
  }
  /// How many units ahead of the one that is updated the states are read.
  int offload_read_ahead() const {
    const int units = std::max(offload_buffer_count, least_offload_buffers());
    return offload_pipeline_read ? units - 1 - (offload_pipeline_write ? 1 : 0) : 0;
  }
  int data_parallel_degree() const {
    return data_parallel_replicate_degree * data_parallel_shard_degree;
  }
  /// Over how many ranks the gradients of a parameter are summed; each of them has seen other
  /// tokens.
  int gradient_ranks() const { return synchronous_ranks() * context_parallel_degree; }
  /// Whether the replicas of dp_replicate train apart.
  bool trains_apart() const { return local_sgd.method != SemiSyncMethod::None; }
  /// How many replicas sum their gradients in every step, and how many data-parallel ranks do.
  int synchronous_replicas() const { return trains_apart() ? 1 : data_parallel_replicate_degree; }
  int synchronous_ranks() const { return synchronous_replicas() * data_parallel_shard_degree; }
  /// Over how many ranks optimizer states are sharded, and by ZeRO's stage gradients and
  /// parameters.
  int state_shards() const {
    return zero_stage >= 1 ? data_parallel_shard_degree * context_parallel_degree : 1;
  }
  /// The same for the experts that a rank holds.
  int expert_shards() const { return zero_stage >= 1 ? shards_of_experts() : 1; }
  /// Over how many ranks the gradients of an expert are summed, by data parallelism and context
  /// parallelism; each of them has its own tokens.
  int expert_gradient_ranks() const { return synchronous_replicas() * shards_of_experts(); }
  bool folds_experts() const { return expert_parallel_folding && expert_parallel_degree > 1; }
  /// How many groups of tp's ranks, which divide each expert, divide the experts among them.
  int experts_over_tp() const {
    return folds_experts() ? tensor_parallel_degree / expert_tensor_parallel_degree : 1;
  }
  /// Whether the ranks of cp are among the ranks that divide the experts.
  bool experts_over_cp() const {
    return folds_experts() && expert_parallel_degree > experts_over_tp();
  }
  /// How many of the ranks of dp_shard divide the experts.
  int experts_over_shards() const {
    const int others = experts_over_tp() * (experts_over_cp() ? context_parallel_degree : 1);
    return std::max(1, expert_parallel_degree / others);
  }
  /// Whether gathered parameters are resharded after forward over fewer ranks than before it.
  bool reshards_to_fewer() const {
    return state_shards() > 1 && zero_stage == 3 && fsdp_reshard_degree > 0 &&
           fsdp_reshard_degree < state_shards();
  }
  /// How many neighbours of dp_shard are a dimension of the mesh of their own, because they gather
  /// or exchange among themselves; 1: none are.
  int inner_shards() const {
    if (reshards_to_fewer()) return fsdp_reshard_degree;
    const bool exchanges = zero_quantized_gradients && state_shards() > 1 &&
                           zero_quantized_gradients_inner_degree < data_parallel_shard_degree;
    return exchanges ? std::max(1, zero_quantized_gradients_inner_degree) : 1;
  }
  /// Whether shards are cut where blocks of codes are.
  bool sends_codes() const { return zero_quantized_weights || zero_quantized_gradients; }
  /// Of the ranks that divide a sequence, how many exchange tokens for heads, and between how many
  /// such groups keys and values go.
  int head_ranks() const {
    return context_parallel_method == ContextParallelMethod::Ulysses
               ? context_parallel_degree
               : context_parallel_ulysses_degree;
  }
  int key_ranks() const { return context_parallel_degree / std::max(1, head_ranks()); }
  bool gathers_keys() const {
    return key_ranks() > 1 && context_parallel_method == ContextParallelMethod::AllGather;
  }
  bool passes_keys() const {
    return key_ranks() > 1 && context_parallel_method == ContextParallelMethod::Ring;
  }
  bool sequence_parallel() const { return enable_sequence_parallel && tensor_parallel_degree > 1; }
  /// How many ranks hold copies of the same states.
  int state_replicas() const { return gradient_ranks() / state_shards(); }
  /// How many of the ranks of dp_shard hold the same experts.
  int shards_beside_experts() const { return data_parallel_shard_degree / experts_over_shards(); }
  int world_size() const {
    return data_parallel_degree() * context_parallel_degree * tensor_parallel_degree *
           pipeline_parallel_degree;
  }
  WeightVersions weight_versions() const {
    return pipeline_parallel_schedule_csv.empty() ? rules_of(pipeline_parallel_schedule).versions
                                                  : WeightVersions::One;
  }
  /// How many pipeline ranks divide the vocabulary.
  int vocabulary_stages() const {
    return vocabulary_parallel_pipeline ? pipeline_parallel_degree : 1;
  }
  int num_stages() const { return pipeline_parallel_degree * pipeline_parallel_virtual_stages; }
  bool operator==(const StrategySpec&) const = default;

 private:
  int shards_of_experts() const {
    return shards_beside_experts() * (experts_over_cp() ? 1 : context_parallel_degree);
  }
};

}  // namespace lockstep
