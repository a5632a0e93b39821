#include "core/spec/foreign_names.hpp"

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

/// torchtitan's name is ours.
constexpr std::string_view kSame = "=";

// torchtitan 0.2.1 and 0.2.2 (config/job_config.py), Megatron-LM (core_v0.18),
// DeepSpeed (runtime/config.py, runtime/zero/config.py).
constexpr ForeignName kNames[] = {
    {"model.layers", "", "num-layers", ""},
    {"model.hidden", "", "hidden-size", ""},
    {"model.ffn_hidden", "", "ffn-hidden-size", ""},
    {"model.heads", "", "num-attention-heads", ""},
    {"model.head_dim", "", "kv-channels", ""},
    {"model.kv_heads", "", "num-query-groups", ""},
    {"model.max_seq_len", "", "max-position-embeddings", ""},
    {"model.vocab", "", "vocab-size", ""},
    {"model.norm_eps", "", "norm-epsilon", ""},
    {"model.rope_theta", "", "rotary-base", ""},
    {"model.rope_factor", "", "rope-scaling-factor", ""},
    {"model.qkv_bias", "", "add-qkv-bias", ""},
    {"model.qk_norm", "", "qk-layernorm", ""},
    {"model.kv_lora_rank", "", "kv-lora-rank", ""},
    {"model.q_lora_rank", "", "q-lora-rank", ""},
    {"model.qk_nope_head_dim", "", "qk-head-dim", ""},
    {"model.qk_rope_head_dim", "", "qk-pos-emb-head-dim", ""},
    {"model.v_head_dim", "", "v-head-dim", ""},
    {"model.tied_embeddings", "", "untie-embeddings-and-output-weights", ""},
    {"model.experts", "", "num-experts", ""},
    {"model.experts_per_token", "", "moe-router-topk", ""},
    {"model.expert_period", "", "moe-layer-freq", ""},
    {"model.shared_expert_hidden", "", "moe-shared-expert-intermediate-size", ""},
    {"model.shared_expert_gate", "", "moe-shared-expert-gate", ""},
    {"model.capacity_factor", "", "moe-expert-capacity-factor", ""},
    {"model.expert_rank_capacity_factor", "", "moe-expert-rank-capacity-factor", ""},
    {"model.router_aux_loss_coef", "", "moe-aux-loss-coeff", ""},
    {"model.router_bias_update_rate", "", "moe-router-bias-update-rate", ""},
    {"model.router_score", "", "moe-router-score-function", ""},
    {"lora.rank", "", "", "", "r"},
    {"lora.alpha", "", "", "", "lora_alpha"},
    {"lora.dropout", "", "", "", "lora_dropout"},
    {"training.seq_len", kSame, "seq-length", ""},
    {"training.local_batch_size", kSame, "micro-batch-size", "train_micro_batch_size_per_gpu"},
    {"training.global_batch_size", kSame, "global-batch-size", "train_batch_size"},
    {"training.steps", kSame, "train-iters", ""},
    {"training.seed", "debug.seed", "seed", ""},
    {"training.max_norm", kSame, "clip-grad", "gradient_clipping"},
    {"training.dtype", kSame, "", ""},
    {"training.dataset", kSame, "data-path", ""},
    {"training.reset_attention_mask", "model.attn_mask_type", "reset-attention-mask", ""},
    {"training.reset_position_ids", "", "reset-position-ids", ""},
    {"training.eod_mask_loss", "", "eod-mask-loss", ""},
    {"training.residual_dropout", "", "hidden-dropout", "", "resid_pdrop"},
    {"training.embedding_dropout", "", "", "", "embd_pdrop"},
    {"training.attention_dropout", "", "attention-dropout", "", "attn_pdrop"},
    {"training.mixed_precision_param", kSame, "bf16", "bf16.enabled"},
    {"training.mixed_precision_reduce", kSame, "accumulate-allreduce-grads-in-fp32",
     "data_types.grad_accum_dtype"},
    {"training.fp8", "model.converters", "fp8-format", ""},
    {"training.fp8_recipe", "quantize.linear.mx.recipe_name", "fp8-recipe", ""},
    {"training.fp8_amax_history_len", "", "fp8-amax-history-len", ""},
    {"training.fp8_amax_compute_algo", "", "fp8-amax-compute-algo", ""},
    {"training.fp8_margin", "", "fp8-margin", ""},
    {"training.num_layers_at_start_in_bf16", "", "num-layers-at-start-in-bf16", ""},
    {"training.num_layers_at_end_in_bf16", "", "num-layers-at-end-in-bf16", ""},
    {"optimizer.name", kSame, "optimizer", "optimizer.type"},
    {"optimizer.lr", kSame, "lr", "optimizer.params.lr"},
    {"optimizer.beta1", kSame, "adam-beta1", "optimizer.params.betas"},
    {"optimizer.beta2", kSame, "adam-beta2", ""},
    {"optimizer.eps", kSame, "adam-eps", "optimizer.params.eps"},
    {"optimizer.weight_decay", kSame, "weight-decay", "optimizer.params.weight_decay"},
    {"optimizer.momentum", "", "sgd-momentum", "optimizer.params.momentum"},
    {"optimizer.nesterov", "", "muon-nesterov", ""},
    {"optimizer.muon_lr", "", "", "optimizer.params.muon_lr"},
    {"optimizer.ns_steps", "", "muon-num-ns-steps", ""},
    {"optimizer.adjust_lr_fn", "", "muon-scale-mode", ""},
    {"optimizer.ns_dtype", "", "muon-fp32-matmul-prec", ""},
    {"optimizer.decay_rate", "", "", "optimizer.params.beta2_decay"},
    {"optimizer.clip_threshold", "", "", "optimizer.params.d"},
    {"lr_scheduler.warmup_steps", kSame, "lr-warmup-iters", "scheduler.params.warmup_num_steps"},
    {"lr_scheduler.decay_ratio", kSame, "lr-decay-iters", ""},
    {"lr_scheduler.decay_type", kSame, "lr-decay-style", "scheduler.type"},
    {"lr_scheduler.min_lr_factor", kSame, "min-lr", "scheduler.params.cos_min_ratio"},
    {"loss_scale.init_scale", "", "initial-loss-scale", "fp16.initial_scale_power"},
    {"loss_scale.growth_interval", "", "loss-scale-window", "fp16.loss_scale_window"},
    {"loss_scale.hysteresis", "", "hysteresis", "fp16.hysteresis"},
    {"loss_scale.min_scale", "", "min-loss-scale", "fp16.min_loss_scale"},
    {"parallelism.data_parallel_replicate_degree", kSame, "num-distributed-optimizer-instances",
     ""},
    {"parallelism.data_parallel_shard_degree", kSame, "", "zero_optimization.mics_shard_size"},
    {"parallelism.zero_stage", "", "data-parallel-sharding-strategy", "zero_optimization.stage"},
    {"parallelism.context_parallel_degree", kSame, "context-parallel-size", ""},
    {"parallelism.context_parallel_method", "parallelism.context_parallel_rotate_method",
     "cp-comm-type", ""},
    {"parallelism.context_parallel_ulysses_degree", "", "hierarchical-context-parallel-sizes", ""},
    {"parallelism.tensor_parallel_degree", kSame, "tensor-model-parallel-size", ""},
    {"parallelism.enable_sequence_parallel", "", "sequence-parallel", ""},
    {"parallelism.tensor_parallel_chunks", "parallelism.enable_async_tensor_parallel",
     "tp-comm-overlap", ""},
    {"parallelism.expert_parallel_degree", kSame, "expert-model-parallel-size", ""},
    {"parallelism.expert_tensor_parallel_degree", kSame, "expert-tensor-parallel-size", ""},
    {"parallelism.pipeline_parallel_degree", kSame, "pipeline-model-parallel-size", ""},
    {"parallelism.pipeline_parallel_schedule", kSame, "", ""},
    {"parallelism.pipeline_parallel_schedule_csv", kSame, "", ""},
    {"parallelism.pipeline_parallel_virtual_stages", "", "num-virtual-stages-per-pipeline-rank",
     ""},
    {"parallelism.pipeline_parallel_microbatch_group_size", "",
     "microbatch-group-size-per-virtual-pipeline-stage", ""},
    {"parallelism.pipeline_parallel_layers_per_stage", "parallelism.module_fqns_per_model_part",
     "decoder-first-pipeline-num-layers", ""},
    {"parallelism.fsdp_reshard_after_forward", kSame, "", ""},
    {"parallelism.fsdp_reshard_degree", "", "", "zero_optimization.zero_hpz_partition_size"},
    {"parallelism.zero_quantized_weights", "", "", "zero_optimization.zero_quantized_weights"},
    {"parallelism.zero_quantized_gradients", "", "", "zero_optimization.zero_quantized_gradients"},
    {"parallelism.fsdp_persistence_threshold", "", "",
     "zero_optimization.stage3_param_persistence_threshold"},
    {"parallelism.offload", "training.enable_cpu_offload", "optimizer-cpu-offload",
     "zero_optimization.offload_optimizer"},
    {"parallelism.offload_optimizer_device", "", "", "zero_optimization.offload_optimizer.device"},
    {"parallelism.offload_param_device", "", "", "zero_optimization.offload_param.device"},
    {"parallelism.offload_nvme_path", "", "", "zero_optimization.offload_optimizer.nvme_path"},
    {"parallelism.offload_buffer_count", "", "",
     "zero_optimization.offload_optimizer.buffer_count"},
    {"parallelism.offload_pipeline_read", "", "",
     "zero_optimization.offload_optimizer.pipeline_read"},
    {"parallelism.offload_pipeline_write", "", "",
     "zero_optimization.offload_optimizer.pipeline_write"},
    {"parallelism.bucket_cap_mb", "", "ddp-bucket-size", "zero_optimization.reduce_bucket_size"},
    {"parallelism.overlap_grad_reduce", "", "overlap-grad-reduce",
     "zero_optimization.overlap_comm"},
    {"parallelism.overlap_param_gather", "", "overlap-param-gather", ""},
    {"local_sgd.method", "fault_tolerance.semi_sync_method", "", ""},
    {"local_sgd.sync_steps", "fault_tolerance.sync_steps", "", ""},
    {"activation_checkpoint.mode", kSame, "recompute-granularity", ""},
    {"activation_checkpoint.selective_ac_option", kSame, "recompute-modules", ""},
    {"activation_checkpoint.recomputed_layers_per_stage", "", "recompute-num-layers", ""},
    {"checkpoint.interval", kSame, "save-interval", ""},
    {"checkpoint.folder", kSame, "save", ""},
    {"checkpoint.keep_latest_k", kSame, "", ""},
    {"validation.freq", kSame, "eval-interval", ""},
    {"validation.steps", kSame, "eval-iters", ""},
};

std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string plain(std::string_view word) {
  while (word.starts_with('-')) word.remove_prefix(1);
  std::string text(word);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

}  // namespace

std::string_view command_name(Trainer trainer) {
  constexpr std::string_view kNamesOfCommands[] = {"torchtitan", "megatron", "deepspeed", "peft"};
  return kNamesOfCommands[static_cast<int>(trainer)];
}

std::string_view spoken_name(Trainer trainer) {
  constexpr std::string_view kSpoken[] = {"torchtitan", "Megatron-LM", "DeepSpeed", "PEFT"};
  return kSpoken[static_cast<int>(trainer)];
}

std::string_view ForeignName::of(Trainer trainer) const {
  if (trainer == Trainer::Torchtitan) return torchtitan == kSame ? key : torchtitan;
  return trainer == Trainer::Megatron ? megatron : trainer == Trainer::DeepSpeed ? deepspeed : peft;
}

std::span<const ForeignName> foreign_names() { return kNames; }

std::string_view name_for(Trainer trainer, std::string_view key) {
  for (const ForeignName& name : kNames) {
    if (name.key == key) return name.of(trainer);
  }
  return {};
}

std::string_view key_for(Trainer trainer, std::string_view name) {
  for (const ForeignName& row : kNames) {
    if (!name.empty() && row.of(trainer) == name) return row.key;
  }
  return {};
}

std::optional<ForeignMeaning> foreign_meaning(std::string_view word) {
  const std::string wanted = plain(word);
  for (const Trainer trainer :
       {Trainer::Megatron, Trainer::DeepSpeed, Trainer::Torchtitan, Trainer::Peft}) {
    for (const ForeignName& row : kNames) {
      const std::string_view name = row.of(trainer);
      if (!name.empty() && plain(last_part(name)) == wanted) return {{trainer, name, row.key}};
    }
  }
  return std::nullopt;
}

std::optional<Trainer> trainer_of_section(std::string_view name) {
  for (const std::string_view section :
       {"job", "profiling", "metrics", "compile", "comm", "quantize", "float8", "fault_tolerance",
        "experimental", "debug", "memory_estimation"}) {
    if (name == section) return Trainer::Torchtitan;
  }
  for (const ForeignName& row : kNames) {
    if (!row.deepspeed.empty() && row.deepspeed.substr(0, row.deepspeed.find('.')) == name &&
        name != "optimizer") {
      return Trainer::DeepSpeed;
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
