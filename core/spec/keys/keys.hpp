// The keys of a scenario file, each in one row: its name, the member it sets, the unit it is
// written in, the numbers it may be, and of which models, trainings and layouts it is. Whatever
// reads, prints, checks or lists keys walks these rows: Reader and Writer in core/scenario,
// check_keys() in core/spec/validate. What a key means is said in docs/scenario, and what other
// trainers call it in core/spec/foreign_names.cpp. Within a section, plain values come before
// sub-tables, as TOML requires.
#pragma once

#include <concepts>
#include <type_traits>

#include "core/spec/keys/choices.hpp"
#include "core/spec/keys/range.hpp"
#include "core/spec/keys/units.hpp"
#include "core/spec/keys/whose.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

template <class T, class Spec>
concept Of = std::same_as<std::remove_const_t<T>, Spec>;

/// Base of a visitor V that needs names, members and units only: V::field(name, member[, unit]),
/// V::table() and V::tables().
template <class V>
class KeyVisitor {
 public:
  template <class T>
  void key(const char* name, T& member, const Range& = {}) {
    static_cast<V&>(*this).field(name, member);
  }
  template <class T>
  void key(const char* name, T& member, UnitPrefix prefix, const Range& = {}) {
    static_cast<V&>(*this).field(name, member, prefix);
  }
  void only(const Whose&) {}
};

template <class V, Of<ModelSpec> S>
void describe(V& v, S& m) {
  v.key("name", m.name);
  v.key("architecture", m.architecture);
  v.only(kWithLayers);
  v.key("layers", m.layers, "[0, 16384]");
  v.only(kTransformers);
  v.key("hidden", m.hidden, "[1, 2147483647]");
  v.key("heads", m.heads, "[1, 2147483647]");
  v.key("kv_heads", m.kv_heads, "[1, 2147483647]");
  v.key("head_dim", m.head_dim, "[1, 2147483647]");
  v.key("ffn_hidden", m.ffn_hidden, "[1, 2147483647]");
  v.only(kText);
  v.key("vocab", m.vocab, "[1, 2147483647]");
  v.key("max_seq_len", m.max_seq_len, ">= 0");
  v.key("tied_embeddings", m.tied_embeddings);
  v.key("norm", m.norm);
  v.key("norm_place", m.norm_place);
  v.key("activation", m.activation);
  v.key("positions", m.positions);
  v.key("biases", m.biases);
  v.key("parallel_branches", m.parallel_branches);
  v.key("shared_norm", m.shared_norm);
  v.only(kAll);
  v.key("norm_eps", m.norm_eps, ">= 0");
  v.only(kRotary);
  v.key("rope_theta", m.rope_theta, "> 0");
  v.key("rope_factor", m.rope_scaling.factor, ">= 1");
  v.key("rope_original_length", m.rope_scaling.original_length, ">= 0");
  v.key("rope_low_freq_factor", m.rope_scaling.low_freq_factor, "> 0");
  v.key("rope_high_freq_factor", m.rope_scaling.high_freq_factor, "> 0");
  v.key("rotary_fraction", m.rotary_fraction, "(0, 1]");
  v.key("local_rope_theta", m.local_rope_theta, ">= 0");
  v.only(kText);
  v.key("qkv_bias", m.qkv_bias);
  v.key("qk_norm", m.qk_norm);
  v.key("sliding_window", m.sliding_window, ">= 0");
  v.key("global_period", m.global_period, ">= 0");
  v.key("attention_multiplier", m.attention_multiplier, ">= 0");
  v.key("attention_softcap", m.attention_softcap, ">= 0");
  v.key("embedding_multiplier", m.embedding_multiplier, "> 0");
  v.key("residual_multiplier", m.residual_multiplier, "> 0");
  v.key("logit_multiplier", m.logit_multiplier, "> 0");
  v.key("logit_softcap", m.logit_softcap, ">= 0");
  v.key("causal", m.causal);
  v.only(kEncoders);
  v.key("mask_token", m.mask_token);
  v.only(kText);
  v.key("embedding_norm", m.embedding_norm);
  v.key("token_types", m.token_types, ">= 0");
  v.key("head_transform", m.head_transform);
  v.key("kv_lora_rank", m.latent.kv_lora_rank, "[0, 2147483647]");
  v.only(kLatent);
  v.key("q_lora_rank", m.latent.q_lora_rank, ">= 0");
  v.key("qk_nope_head_dim", m.latent.qk_nope_head_dim, ">= 0");
  v.key("qk_rope_head_dim", m.latent.qk_rope_head_dim, ">= 0");
  v.key("v_head_dim", m.latent.v_head_dim, ">= 0");
  v.only(kAll);
  v.key("fused_names", m.fused_names);
  v.key("simulated_only", m.simulated_only);
  v.key("frozen", m.frozen);
  v.only(kText);
  v.key("experts", m.experts, "[0, 16384]");
  v.only(kExperts);
  v.key("experts_per_token", m.experts_per_token, ">= 1");
  v.key("expert_period", m.expert_period, ">= 1");
  v.key("dense_layers", m.dense_layers, ">= 0");
  v.key("dense_ffn_hidden", m.dense_ffn_hidden, ">= 0");
  v.key("shared_expert_hidden", m.shared_expert_hidden, ">= 0");
  v.key("shared_expert_gate", m.shared_expert_gate);
  v.key("router_score", m.router_score);
  v.key("capacity_factor", m.capacity_factor, "[0, 1000000]");
  v.key("expert_rank_capacity_factor", m.expert_rank_capacity_factor, "0 or [1, 1000000]");
  v.key("router_aux_loss_coef", m.router_aux_loss_coef, ">= 0");
  v.key("router_bias_update_rate", m.router_bias_update_rate, ">= 0");
  v.key("router_imbalance", m.router_imbalance, "0 or [1, 1000000]");
  v.only(kResnets);
  v.key("blocks", m.blocks);
  v.key("bottleneck", m.bottleneck);
  v.key("width", m.width, "[1, 16384]");
  v.only(kImages);
  v.key("image_size", m.image_size, "[1, 16384]");
  v.key("classes", m.classes, "[1, 2147483647]");
  v.only(kResnets);
  v.key("small_stem", m.small_stem);
  v.key("norm_momentum", m.norm_momentum, "(0, 1]");
  v.only(kVit);
  v.key("patch_size", m.patch_size, "[1, 2147483647]");
}

template <class V, Of<LoraSpec> S>
void describe(V& v, S& l) {
  v.key("rank", l.rank, "[0, 65536]");
  v.only(kAdapters);
  v.key("alpha", l.alpha, "> 0");
  v.key("dropout", l.dropout, "[0, 1)");
  v.key("target_modules", l.target_modules);
}

template <class V, Of<TrainingSpec> S>
void describe(V& v, S& t) {
  v.key("seq_len", t.seq_len, ">= 1");
  v.key("local_batch_size", t.local_batch_size, ">= 1");
  v.key("global_batch_size", t.global_batch_size, "-1 or >= 1");
  v.key("steps", t.steps, ">= 1");
  v.key("max_norm", t.max_norm, ">= 0");
  v.only(kText);
  v.key("loss_chunks", t.loss_chunks, ">= 1");
  v.only(kAll);
  v.key("dtype", t.dtype);
  v.key("mixed_precision_param", t.mixed_precision_param);
  v.key("mixed_precision_reduce", t.mixed_precision_reduce);
  v.only(kResnets);
  v.key("mixed_precision_buffer", t.mixed_precision_buffer);
  v.only(kAll);
  v.key("float32_matmul", t.float32_matmul);
  v.key("float32_convolution", t.float32_convolution);
  v.key("fp8", t.fp8);
  v.only(kFp8);
  v.key("fp8_recipe", t.fp8_recipe);
  v.only(kFp8Blocks);
  v.key("fp8_block_size", t.fp8_block_size, ">= 0");
  v.only(kDelayed);
  v.key("fp8_amax_history_len", t.fp8_amax_history_len, "[1, 65536]");
  v.key("fp8_amax_compute_algo", t.fp8_amax_compute_algo);
  v.key("fp8_margin", t.fp8_margin, "[-32, 32]");
  v.only(kFp8);
  v.key("num_layers_at_start_in_bf16", t.num_layers_at_start_in_bf16, ">= 0");
  v.key("num_layers_at_end_in_bf16", t.num_layers_at_end_in_bf16, ">= 0");
  v.only(kAll);
  v.key("stochastic_rounding", t.stochastic_rounding);
  v.key("seed", t.seed);
  v.key("dataset", t.dataset);
  v.key("reset_attention_mask", t.reset_attention_mask);
  v.key("reset_position_ids", t.reset_position_ids);
  v.key("eod_mask_loss", t.eod_mask_loss);
  v.only(kDocuments);
  v.key("eod_token", t.eod_token);
  v.key("mean_document_length", t.mean_document_length, "0 or [1, 1000000000000]");
  v.only(kEncoders);
  v.key("mask_prob", t.mask_prob, "(0, 1]");
  v.only(kAll);
  v.key("residual_dropout", t.residual_dropout, "[0, 1)");
  v.key("embedding_dropout", t.embedding_dropout, "[0, 1)");
  v.key("attention_dropout", t.attention_dropout, "[0, 1)");
  v.key("reshuffle", t.reshuffle);
  v.key("total_tokens", t.total_tokens, ">= 0");
  v.key("on_nonfinite", t.on_nonfinite);
  v.key("skip_loss_zscore", t.skip_loss_zscore, ">= 0");
  v.key("skip_grad_zscore", t.skip_grad_zscore, ">= 0");
}

template <class V, Of<ActivationCheckpointSpec> S>
void describe(V& v, S& a) {
  v.key("mode", a.mode);
  v.key("selective_ac_option", a.selective_ac_option);
  v.key("recomputed_layers_per_stage", a.recomputed_layers_per_stage);
}

template <class V, Of<OptimizerSpec> S>
void describe(V& v, S& o) {
  v.key("name", o.name);
  v.key("lr", o.lr, ">= 0");
  v.key("beta1", o.beta1, "[0, 1)");
  v.key("beta2", o.beta2, "[0, 1)");
  v.key("eps", o.eps, "> 0");
  v.key("weight_decay", o.weight_decay, ">= 0");
  v.key("weight_decay_on", o.weight_decay_on);
  v.key("momentum", o.momentum, "[0, 1)");
  v.key("nesterov", o.nesterov);
  v.key("muon_lr", o.muon_lr, ">= 0");
  v.key("ns_steps", o.ns_steps, ">= 1");
  v.key("adjust_lr_fn", o.adjust_lr_fn);
  v.key("ns_dtype", o.ns_dtype);
  v.key("decay_rate", o.decay_rate, "[-1, 0)");
  v.key("clip_threshold", o.clip_threshold, "> 0");
  v.key("eps_square", o.eps_square, "> 0");
  v.key("eps_scale", o.eps_scale, "> 0");
  v.key("scale_parameter", o.scale_parameter);
  v.key("relative_step", o.relative_step);
  v.key("first_moment_decay", o.first_moment_decay, "[0, 1)");
  v.key("state_dtype", o.state_dtype);
  v.key("block_size", o.block_size, ">= 1");
}

template <class V, Of<LrSchedulerSpec> S>
void describe(V& v, S& l) {
  v.key("warmup_steps", l.warmup_steps, ">= 0");
  v.key("decay_ratio", l.decay_ratio, "[0, 1]");
  v.key("decay_type", l.decay_type);
  v.key("min_lr_factor", l.min_lr_factor, "[0, 1]");
  v.key("scale_with_ranks", l.scale_with_ranks);
}

template <class V, Of<LossScaling> S>
void describe(V& v, S& l) {
  v.only(kScaledLoss);
  v.key("init_scale", l.init_scale);
  v.key("growth_factor", l.growth_factor);
  v.key("backoff_factor", l.backoff_factor);
  v.key("growth_interval", l.growth_interval);
  v.key("hysteresis", l.hysteresis);
  v.key("min_scale", l.min_scale);
}

template <class V, Of<StrategySpec> S>
void describe(V& v, S& p) {
  v.key("data_parallel_replicate_degree", p.data_parallel_replicate_degree, "[1, 16777216]");
  v.key("data_parallel_shard_degree", p.data_parallel_shard_degree, "[1, 16777216]");
  v.key("zero_stage", p.zero_stage, "[0, 3]");
  v.key("context_parallel_degree", p.context_parallel_degree, "[1, 16777216]");
  v.key("context_parallel_method", p.context_parallel_method);
  v.key("context_parallel_ulysses_degree", p.context_parallel_ulysses_degree, ">= 1");
  v.key("tensor_parallel_degree", p.tensor_parallel_degree, "[1, 16777216]");
  v.key("enable_sequence_parallel", p.enable_sequence_parallel);
  v.key("tensor_parallel_chunks", p.tensor_parallel_chunks, ">= 1");
  v.key("expert_parallel_degree", p.expert_parallel_degree, "[1, 16777216]");
  v.key("expert_parallel_folding", p.expert_parallel_folding);
  v.key("expert_tensor_parallel_degree", p.expert_tensor_parallel_degree, ">= 1");
  v.key("pipeline_parallel_degree", p.pipeline_parallel_degree, "[1, 16777216]");
  v.key("pipeline_parallel_schedule", p.pipeline_parallel_schedule);
  v.key("pipeline_parallel_microbatches", p.pipeline_parallel_microbatches, "[1, 1073741824]");
  v.key("pipeline_parallel_virtual_stages", p.pipeline_parallel_virtual_stages, "[1, 64]");
  v.only(kInterleaved);
  v.key("pipeline_parallel_microbatch_group_size", p.pipeline_parallel_microbatch_group_size,
        ">= 0");
  v.only(kAll);
  v.key("pipeline_parallel_kept_after_input", p.pipeline_parallel_kept_after_input, "(0, 1]");
  v.key("pipeline_parallel_layers_per_stage", p.pipeline_parallel_layers_per_stage);
  v.key("pipeline_parallel_p2p", p.pipeline_parallel_p2p);
  v.key("vocabulary_parallel_pipeline", p.vocabulary_parallel_pipeline);
  v.only(kDividedVocabulary);
  v.key("vocabulary_parallel_lag", p.vocabulary_parallel_lag, ">= 0");
  v.only(kPipeDream);
  v.key("pipeline_parallel_update_every", p.pipeline_parallel_update_every, ">= 0");
  v.only(kAll);
  v.key("pipeline_parallel_schedule_csv", p.pipeline_parallel_schedule_csv);
  v.key("fsdp_reshard_after_forward", p.fsdp_reshard_after_forward);
  v.key("fsdp_reshard_degree", p.fsdp_reshard_degree, "0 or >= 2");
  v.key("fsdp_prefetch", p.fsdp_prefetch, ">= 0");
  v.key("fsdp_backward_prefetch", p.fsdp_backward_prefetch, ">= -1");
  v.key("fsdp_min_num_params", p.fsdp_min_num_params, ">= 0");
  v.key("fsdp_persistence_threshold", p.fsdp_persistence_threshold, ">= 0");
  v.key("fsdp_max_active_stages", p.fsdp_max_active_stages, ">= 0");
  v.key("accumulate_sharded_gradients", p.accumulate_sharded_gradients);
  v.key("all_reduce_each_microbatch", p.all_reduce_each_microbatch);
  v.key("offload", p.offload);
  v.key("offload_optimizer_device", p.offload_optimizer_device);
  v.key("offload_param_device", p.offload_param_device);
  v.key("offload_nvme_path", p.offload_nvme_path);
  v.key("offload_buffer_count", p.offload_buffer_count, ">= 0");
  v.key("offload_pipeline_read", p.offload_pipeline_read);
  v.key("offload_pipeline_write", p.offload_pipeline_write);
  v.key("bucket_cap_mb", p.bucket_cap, UnitPrefix::Mebi, "> 0");
  v.key("first_bucket_cap_mb", p.first_bucket_cap, UnitPrefix::Mebi, "> 0");
  v.key("gradient_as_bucket_view", p.gradient_as_bucket_view);
  v.key("overlap_grad_reduce", p.overlap_grad_reduce);
  v.only(kResnets);
  v.key("sync_batch_norm", p.sync_batch_norm);
  v.only(kAll);
  v.key("overlap_param_gather", p.overlap_param_gather);
  v.key("zero_quantized_weights", p.zero_quantized_weights);
  v.key("zero_quantized_gradients", p.zero_quantized_gradients);
  v.only(kQuantizedGradients);
  v.key("zero_quantized_gradients_bits", p.zero_quantized_gradients_bits, "4 or 8");
  v.key("zero_quantized_gradients_inner_degree", p.zero_quantized_gradients_inner_degree,
        "0 or >= 2");
  v.only(kQuantized);
  v.key("zero_quantized_block_size", p.zero_quantized_block_size, "[2, 1048576]");
}

template <class V, Of<PowerSgdSpec> S>
void describe(V& v, S& p) {
  v.key("matrix_approximation_rank", p.matrix_approximation_rank, "[0, 1024]");
  v.only(kPowerSgd);
  v.key("use_error_feedback", p.use_error_feedback);
  v.key("min_compression_rate", p.min_compression_rate, "> 0");
}

template <class V, Of<LocalSgdSpec> S>
void describe(V& v, S& l) {
  v.key("method", l.method);
  v.only(kLocalSteps);
  v.key("sync_steps", l.sync_steps, ">= 0");
  v.only(kDiLoCo);
  v.key("outer_lr", l.outer_lr, "> 0");
  v.key("outer_momentum", l.outer_momentum, "[0, 1)");
  v.key("outer_nesterov", l.outer_nesterov);
  v.key("offload", l.offload);
}

template <class V, Of<CheckpointSpec> S>
void describe(V& v, S& c) {
  v.key("interval", c.interval, ">= 0");
  v.key("folder", c.folder);
  v.key("keep_latest_k", c.keep_latest_k, ">= 0");
  v.key("keep_every", c.keep_every, ">= 0");
}

template <class V, Of<ValidationSpec> S>
void describe(V& v, S& s) {
  v.key("dataset", s.dataset);
  v.key("freq", s.freq, ">= 0");
  v.key("steps", s.steps, ">= 1");
}

template <class V, Of<CampaignPhaseSpec> S>
void describe(V& v, S& p) {
  v.key("name", p.name);
  v.key("scenario", p.scenario);
  v.key("tokens", p.tokens, ">= 0");
  v.key("share", p.share, "[0, 1]");
  v.key("seq_len", p.seq_len, ">= 0");
  v.key("global_batch_size", p.global_batch_size, ">= 0");
}

template <class V, Of<CampaignSpec> S>
void describe(V& v, S& c) {
  v.key("tokens", c.tokens, ">= 0");
  v.key("days", c.days, ">= 0");
  v.key("failures", c.failures);
  v.key("gpu_mtbf_hours", c.gpu_mtbf, UnitPrefix::Hours, ">= 0");
  v.key("node_mtbf_hours", c.node_mtbf, UnitPrefix::Hours, ">= 0");
  v.key("switch_mtbf_hours", c.switch_mtbf, UnitPrefix::Hours, ">= 0");
  v.key("job_mtbf_hours", c.job_mtbf, UnitPrefix::Hours, ">= 0");
  v.key("gpus_per_switch", c.gpus_per_switch, ">= 1");
  v.key("detection_s", c.detection, UnitPrefix::One, ">= 0");
  v.key("requeue_s", c.requeue, UnitPrefix::One, ">= 0");
  v.key("swap_s", c.swap, UnitPrefix::One, ">= 0");
  v.key("spare_nodes", c.spare_nodes, ">= -1");
  v.key("repair_hours", c.repair, UnitPrefix::Hours, ">= 0");
  v.key("load_s", c.load, UnitPrefix::One, ">= 0");
  v.key("communicator_ms_per_gpu", c.communicator_per_gpu, UnitPrefix::Milli, ">= 0");
  v.key("warmup_s", c.warmup, UnitPrefix::One, ">= 0");
  v.key("evaluation_interval", c.evaluation_interval, ">= 0");
  v.key("evaluation_s", c.evaluation, UnitPrefix::One, ">= 0");
  v.key("save", c.save);
  v.key("save_to", c.save_to);
  v.key("storage_gb_s_per_node", c.storage_per_node, UnitPrefix::Giga, "> 0");
  v.key("straggler_share", c.straggler_share, "[0, 1]");
  v.key("straggler_slowdown", c.straggler_slowdown, ">= 1");
  v.key("pue", c.pue, ">= 1");
  v.key("carbon_g_per_kwh", c.carbon_g_per_kwh, ">= 0");
  v.tables("phase", c.phases);
}

template <class V, Of<CostsSpec> S>
void describe(V& v, S& c) {
  v.key("forward", c.forward);
  v.key("backward_input", c.backward_input);
  v.key("backward_weight", c.backward_weight);
  v.key("p2p", c.p2p, ">= 0");
  v.key("pair_factor", c.pair_factor, "> 0");
}

template <class V, Of<WhatIfSpec> S>
void describe(V& v, S& w) {
  v.key("ideal_network", w.ideal_network);
  v.key("bandwidth_factor", w.bandwidth_factor, "> 0");
  v.key("straggler_rank", w.straggler_rank, ">= -1");
  v.key("straggler_slowdown", w.straggler_slowdown, "> 0");
  v.key("jitter", w.jitter, ">= 0");
  v.key("jitter_distribution", w.jitter_distribution);
  v.key("jitter_seed", w.jitter_seed);
}

template <class V, Of<DataLoaderSpec> S>
void describe(V& v, S& d) {
  v.key("sample_ms", d.sample, UnitPrefix::Milli, "[0, 60000]");
  v.key("num_workers", d.num_workers, "[0, 1024]");
  v.key("prefetch_factor", d.prefetch_factor, "[1, 1024]");
  v.key("pin_memory", d.pin_memory);
}

template <class V, Of<LinkSpec> S>
void describe(V& v, S& l) {
  v.key("bandwidth_gb_s", l.bandwidth, UnitPrefix::Giga, "> 0");
  v.key("latency_us", l.latency, UnitPrefix::Micro, "[0, 86400000000]");
}

template <class V, Of<NetworkSpec> S>
void describe(V& v, S& n) {
  v.key("library", n.library);
  v.key("node_link", n.node_link);
  v.key("switched", n.switched);
  v.key("in_switch_reduction_gb_s", n.in_switch_reduction, UnitPrefix::Giga, ">= 0");
  v.key("low_latency_gb_s", n.low_latency, UnitPrefix::Giga, "> 0");
  v.key("channels", n.channels, ">= 1");
  v.key("ports_per_node", n.ports_per_node, ">= 0");
  v.key("sockets_gb_s", n.sockets, UnitPrefix::Giga, ">= 0");
  v.key("leaf_ports", n.leaf_ports, ">= 0");
  v.key("rails", n.rails);
  v.key("oversubscription", n.oversubscription, ">= 1");
  v.key("spine_latency_us", n.spine_latency, UnitPrefix::Micro, "[0, 86400000000]");
}

template <class V, Of<DriveSpec> S>
void describe(V& v, S& d) {
  v.key("count", d.count, ">= 0");
  v.key("capacity_gb", d.capacity, UnitPrefix::Giga, ">= 0");
  v.key("read_gb_s", d.read, UnitPrefix::Giga, ">= 0");
  v.key("write_gb_s", d.write, UnitPrefix::Giga, ">= 0");
  v.key("latency_us", d.latency, UnitPrefix::Micro, ">= 0");
  v.key("queue_depth", d.queue_depth, ">= 1");
  v.key("request_mb", d.request, UnitPrefix::Mebi, "> 0");
}

template <class V, Of<DeviceSpec> S>
void describe(V& v, S& d) {
  v.key("name", d.name);
  v.key("memory_gb", d.memory, UnitPrefix::Giga, "> 0");
  v.key("memory_bandwidth_gb_s", d.memory_bandwidth, UnitPrefix::Giga, "> 0");
  v.key("host_bandwidth_gb_s", d.host_bandwidth, UnitPrefix::Giga, "> 0");
  v.key("host_memory_bandwidth_gb_s", d.host_memory_bandwidth, UnitPrefix::Giga, ">= 0");
  v.key("host_memory_gb", d.host_memory, UnitPrefix::Giga, ">= 0");
  v.key("tf32_tflops", d.tf32_rate, UnitPrefix::Tera, ">= 0");
  v.key("fp8_tflops", d.fp8_rate, UnitPrefix::Tera, ">= 0");
  v.key("fp4_tflops", d.fp4_rate, UnitPrefix::Tera, ">= 0");
  v.key("launch_overhead_us", d.launch_overhead, UnitPrefix::Micro, "[0, 86400000000]");
  v.key("hand_over_us", d.hand_over, UnitPrefix::Micro, ">= 0");
  v.key("compute_capability", d.compute_capability);
  v.key("compute_units", d.compute_units);
  v.key("matmul_efficiency", d.matmul_efficiency);
  v.key("concurrent_ranks", d.concurrent_ranks, ">= 1");
  v.key("overlap_slowdown", d.overlap_slowdown, ">= 1");
  v.key("dollars_per_hour", d.dollars_per_hour, ">= 0");
  v.key("watts", d.watts, ">= 0");
  v.key("peak_tflops", d.peaks);
}

/// [framework] of a scenario, and the whole of frameworks/*.toml but for the preset's name.
template <class V, Of<FrameworkSpec> S>
void describe(V& v, S& f) {
  v.key("attention", f.attention);
  v.key("fused_softmax", f.fused_softmax);
  v.key("attention_dropout", f.attention_dropout);
  v.key("fused_residual", f.fused_residual);
  v.key("fused_norm", f.fused_norm);
  v.key("fused_activation", f.fused_activation);
  v.key("channels_last", f.channels_last);
  v.key("float32_logits", f.float32_logits, ">= 0");
  v.key("kept_logits", f.kept_logits, ">= 0");
  v.key("fused_gradient_accumulation", f.fused_gradient_accumulation);
  v.key("fused_optimizer", f.fused_optimizer);
  v.key("overlaps_weight_gradients", f.overlaps_weight_gradients);
  v.key("recomputes_all", f.recomputes_all);
  v.key("fp8", f.fp8);
  v.key("fp4", f.fp4);
  v.key("new_capability", f.new_capability);
  v.key("new_matmul_rate", f.new_matmul_rate, "> 0");
  v.key("host_kernel_us", f.host_kernel, UnitPrefix::Micro, ">= 0");
  v.key("launch_blocking", f.launch_blocking);
  v.key("layer_us", f.layer, UnitPrefix::Micro, ">= 0");
  v.key("step_us", f.step, UnitPrefix::Micro, ">= 0");
  v.key("context_mb", f.context, UnitPrefix::Mebi, ">= 0");
  v.key("workspaces", f.workspaces, ">= 0");
  v.key("communicators", f.communicators, ">= 0");
  v.key("caching_allocator", f.caching_allocator);
  v.key("fragments", f.fragments, ">= 0");
  v.key("cached", f.cached, ">= 0");
  v.key("optimizer_bytes", f.optimizer_bytes, ">= 0");
  v.key("gradient_copies", f.gradient_copies);
  v.key("gradient_placeholders", f.gradient_placeholders);
  v.key("fp8_parameters", f.fp8_parameters);
  v.key("gradients_as_parameters", f.gradients_as_parameters);
  v.key("overlap_grad_reduce", f.overlap_grad_reduce);
  v.key("overlap_param_gather", f.overlap_param_gather);
  v.key("all_reduce_each_microbatch", f.all_reduce_each_microbatch);
  v.key("parameter_part_us", f.parameter_part, UnitPrefix::Micro, ">= 0");
  v.key("waits_for_messages", f.waits_for_messages);
  v.key("prefetches_gathers", f.prefetches_gathers);
  v.key("scatters_messages", f.scatters_messages);
  v.key("overlaps_products", f.overlaps_products);
}

template <class V, Of<EfficiencyCurve> S>
void describe(V& v, S& e) {
  v.key("kernel", e.kernel);
  v.key("points", e.points);
  v.key("width", e.width);
  v.key("dtype", e.dtype);
}

/// [cluster] of a scenario, and the whole of a profile (hardware/*.toml).
template <class V, Of<ClusterSpec> S>
void describe(V& v, S& c) {
  v.key("name", c.name);
  v.key("nodes", c.nodes, "[1, 16777216]");
  v.key("devices_per_node", c.devices_per_node, "[1, 16777216]");
  v.key("ranks_per_device", c.ranks_per_device, "[1, 16777216]");
  v.tables("efficiency", c.device.efficiency);
  v.table("device", c.device);
  v.table("intra_node", c.intra_node);
  v.table("inter_node", c.inter_node);
  v.table("network", c.network);
  v.table("drives", c.drives);
}

/// The sections of a scenario file, in the order in which they are printed. V::section() takes the
/// name of one, what it describes, and whether it is printed.
template <class V, Of<Scenario> S>
void describe_sections(V& v, S& s) {
  const auto given = [](const auto& spec) { return spec != std::remove_cvref_t<decltype(spec)>{}; };
  v.section("model", s.model, true);
  v.section("lora", s.model.lora, given(s.model.lora));
  v.section("training", s.training, true);
  v.section("activation_checkpoint", s.activation_checkpoint, true);
  v.section("optimizer", s.optimizer, true);
  v.section("lr_scheduler", s.lr_scheduler, true);
  v.section("loss_scale", s.loss_scale, s.training.scales_loss());
  v.section("parallelism", s.strategy, true);
  v.section("local_sgd", s.strategy.local_sgd, s.strategy.trains_apart());
  v.section("power_sgd", s.strategy.power_sgd, given(s.strategy.power_sgd));
  v.section("checkpoint", s.checkpoint, true);
  v.section("validation", s.validation, given(s.validation));
  v.section("campaign", s.campaign, given(s.campaign));
  if (s.costs) v.section("costs", *s.costs, true);
  v.section("what_if", s.what_if, true);
  v.section("cluster", s.cluster, true);
  // Without it, a GPU is simulated with what people usually run on it.
  const bool usual = !s.cluster.device.is_host() && !s.costs;
  v.section("framework", s.cluster.framework, usual || given(s.cluster.framework));
  v.section("data_loader", s.cluster.loader, given(s.cluster.loader));
}

}  // namespace lockstep
