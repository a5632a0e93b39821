// Schema: the keys of a scenario file, each in one place. Reader, Writer and the list of valid
// names walk the describe() of each section, so that what is printed is what is parsed.
// docs/scenario.md explains the keys. Within a section, plain values come before sub-tables, as
// TOML requires.
#pragma once

#include "core/scenario/choices.hpp"
#include "core/scenario/units.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

template <class V>
void describe(V& v, ModelSpec& m) {
  v.field("name", m.name);
  v.field("architecture", m.architecture);
  v.field("layers", m.layers);
  v.field("hidden", m.hidden);
  v.field("heads", m.heads);
  v.field("kv_heads", m.kv_heads);
  v.field("head_dim", m.head_dim);
  v.field("ffn_hidden", m.ffn_hidden);
  v.field("vocab", m.vocab);
  v.field("max_seq_len", m.max_seq_len);
  v.field("tied_embeddings", m.tied_embeddings);
  v.field("norm", m.norm);
  v.field("norm_place", m.norm_place);
  v.field("activation", m.activation);
  v.field("positions", m.positions);
  v.field("biases", m.biases);
  v.field("parallel_branches", m.parallel_branches);
  v.field("shared_norm", m.shared_norm);
  v.field("norm_eps", m.norm_eps);
  v.field("rope_theta", m.rope_theta);
  v.field("rope_factor", m.rope_scaling.factor);
  v.field("rope_original_length", m.rope_scaling.original_length);
  v.field("rope_low_freq_factor", m.rope_scaling.low_freq_factor);
  v.field("rope_high_freq_factor", m.rope_scaling.high_freq_factor);
  v.field("rotary_fraction", m.rotary_fraction);
  v.field("local_rope_theta", m.local_rope_theta);
  v.field("qkv_bias", m.qkv_bias);
  v.field("qk_norm", m.qk_norm);
  v.field("sliding_window", m.sliding_window);
  v.field("global_period", m.global_period);
  v.field("attention_multiplier", m.attention_multiplier);
  v.field("attention_softcap", m.attention_softcap);
  v.field("embedding_multiplier", m.embedding_multiplier);
  v.field("residual_multiplier", m.residual_multiplier);
  v.field("logit_multiplier", m.logit_multiplier);
  v.field("logit_softcap", m.logit_softcap);
  v.field("causal", m.causal);
  v.field("mask_token", m.mask_token);
  v.field("embedding_norm", m.embedding_norm);
  v.field("token_types", m.token_types);
  v.field("head_transform", m.head_transform);
  v.field("kv_lora_rank", m.latent.kv_lora_rank);
  v.field("q_lora_rank", m.latent.q_lora_rank);
  v.field("qk_nope_head_dim", m.latent.qk_nope_head_dim);
  v.field("qk_rope_head_dim", m.latent.qk_rope_head_dim);
  v.field("v_head_dim", m.latent.v_head_dim);
  v.field("fused_names", m.fused_names);
  v.field("simulated_only", m.simulated_only);
  v.field("frozen", m.frozen);
  v.field("experts", m.experts);
  v.field("experts_per_token", m.experts_per_token);
  v.field("expert_period", m.expert_period);
  v.field("dense_layers", m.dense_layers);
  v.field("dense_ffn_hidden", m.dense_ffn_hidden);
  v.field("shared_expert_hidden", m.shared_expert_hidden);
  v.field("shared_expert_gate", m.shared_expert_gate);
  v.field("router_score", m.router_score);
  v.field("capacity_factor", m.capacity_factor);
  v.field("expert_rank_capacity_factor", m.expert_rank_capacity_factor);
  v.field("router_aux_loss_coef", m.router_aux_loss_coef);
  v.field("router_bias_update_rate", m.router_bias_update_rate);
  v.field("router_imbalance", m.router_imbalance);
  v.field("blocks", m.blocks);
  v.field("bottleneck", m.bottleneck);
  v.field("width", m.width);
  v.field("image_size", m.image_size);
  v.field("classes", m.classes);
  v.field("small_stem", m.small_stem);
  v.field("norm_momentum", m.norm_momentum);
  v.field("patch_size", m.patch_size);
}

template <class V>
void describe(V& v, LoraSpec& l) {
  v.field("rank", l.rank);
  v.field("alpha", l.alpha);
  v.field("dropout", l.dropout);
  v.field("target_modules", l.target_modules);
}

template <class V>
void describe(V& v, TrainingSpec& t) {
  v.field("seq_len", t.seq_len);
  v.field("local_batch_size", t.local_batch_size);
  v.field("global_batch_size", t.global_batch_size);
  v.field("steps", t.steps);
  v.field("max_norm", t.max_norm);
  v.field("dtype", t.dtype);
  v.field("mixed_precision_param", t.mixed_precision_param);
  v.field("mixed_precision_reduce", t.mixed_precision_reduce);
  v.field("mixed_precision_buffer", t.mixed_precision_buffer);
  v.field("float32_matmul", t.float32_matmul);
  v.field("float32_convolution", t.float32_convolution);
  v.field("fp8", t.fp8);
  v.field("fp8_recipe", t.fp8_recipe);
  v.field("fp8_block_size", t.fp8_block_size);
  v.field("fp8_amax_history_len", t.fp8_amax_history_len);
  v.field("fp8_amax_compute_algo", t.fp8_amax_compute_algo);
  v.field("fp8_margin", t.fp8_margin);
  v.field("num_layers_at_start_in_bf16", t.num_layers_at_start_in_bf16);
  v.field("num_layers_at_end_in_bf16", t.num_layers_at_end_in_bf16);
  v.field("stochastic_rounding", t.stochastic_rounding);
  v.field("seed", t.seed);
  v.field("dataset", t.dataset);
  v.field("reset_attention_mask", t.reset_attention_mask);
  v.field("reset_position_ids", t.reset_position_ids);
  v.field("eod_mask_loss", t.eod_mask_loss);
  v.field("eod_token", t.eod_token);
  v.field("mean_document_length", t.mean_document_length);
  v.field("mask_prob", t.mask_prob);
  v.field("residual_dropout", t.residual_dropout);
  v.field("embedding_dropout", t.embedding_dropout);
  v.field("attention_dropout", t.attention_dropout);
  v.field("reshuffle", t.reshuffle);
  v.field("total_tokens", t.total_tokens);
  v.field("on_nonfinite", t.on_nonfinite);
  v.field("skip_loss_zscore", t.skip_loss_zscore);
  v.field("skip_grad_zscore", t.skip_grad_zscore);
}

template <class V>
void describe(V& v, ActivationCheckpointSpec& a) {
  v.field("mode", a.mode);
  v.field("selective_ac_option", a.selective_ac_option);
  v.field("recomputed_layers_per_stage", a.recomputed_layers_per_stage);
}

template <class V>
void describe(V& v, OptimizerSpec& o) {
  v.field("name", o.name);
  v.field("lr", o.lr);
  v.field("beta1", o.beta1);
  v.field("beta2", o.beta2);
  v.field("eps", o.eps);
  v.field("weight_decay", o.weight_decay);
  v.field("weight_decay_on", o.weight_decay_on);
  v.field("momentum", o.momentum);
  v.field("nesterov", o.nesterov);
  v.field("muon_lr", o.muon_lr);
  v.field("ns_steps", o.ns_steps);
  v.field("adjust_lr_fn", o.adjust_lr_fn);
  v.field("ns_dtype", o.ns_dtype);
  v.field("decay_rate", o.decay_rate);
  v.field("clip_threshold", o.clip_threshold);
  v.field("eps_square", o.eps_square);
  v.field("eps_scale", o.eps_scale);
  v.field("scale_parameter", o.scale_parameter);
  v.field("relative_step", o.relative_step);
  v.field("first_moment_decay", o.first_moment_decay);
  v.field("state_dtype", o.state_dtype);
  v.field("block_size", o.block_size);
}

template <class V>
void describe(V& v, LrSchedulerSpec& l) {
  v.field("warmup_steps", l.warmup_steps);
  v.field("decay_ratio", l.decay_ratio);
  v.field("decay_type", l.decay_type);
  v.field("min_lr_factor", l.min_lr_factor);
  v.field("scale_with_ranks", l.scale_with_ranks);
}

template <class V>
void describe(V& v, LossScaling& l) {
  v.field("init_scale", l.init_scale);
  v.field("growth_factor", l.growth_factor);
  v.field("backoff_factor", l.backoff_factor);
  v.field("growth_interval", l.growth_interval);
  v.field("hysteresis", l.hysteresis);
  v.field("min_scale", l.min_scale);
}

template <class V>
void describe(V& v, StrategySpec& p) {
  v.field("data_parallel_replicate_degree", p.data_parallel_replicate_degree);
  v.field("data_parallel_shard_degree", p.data_parallel_shard_degree);
  v.field("zero_stage", p.zero_stage);
  v.field("context_parallel_degree", p.context_parallel_degree);
  v.field("context_parallel_method", p.context_parallel_method);
  v.field("context_parallel_ulysses_degree", p.context_parallel_ulysses_degree);
  v.field("tensor_parallel_degree", p.tensor_parallel_degree);
  v.field("enable_sequence_parallel", p.enable_sequence_parallel);
  v.field("tensor_parallel_chunks", p.tensor_parallel_chunks);
  v.field("expert_parallel_degree", p.expert_parallel_degree);
  v.field("expert_parallel_folding", p.expert_parallel_folding);
  v.field("expert_tensor_parallel_degree", p.expert_tensor_parallel_degree);
  v.field("pipeline_parallel_degree", p.pipeline_parallel_degree);
  v.field("pipeline_parallel_schedule", p.pipeline_parallel_schedule);
  v.field("pipeline_parallel_microbatches", p.pipeline_parallel_microbatches);
  v.field("pipeline_parallel_virtual_stages", p.pipeline_parallel_virtual_stages);
  v.field("pipeline_parallel_microbatch_group_size", p.pipeline_parallel_microbatch_group_size);
  v.field("pipeline_parallel_kept_after_input", p.pipeline_parallel_kept_after_input);
  v.field("pipeline_parallel_layers_per_stage", p.pipeline_parallel_layers_per_stage);
  v.field("pipeline_parallel_p2p", p.pipeline_parallel_p2p);
  v.field("vocabulary_parallel_pipeline", p.vocabulary_parallel_pipeline);
  v.field("vocabulary_parallel_lag", p.vocabulary_parallel_lag);
  v.field("pipeline_parallel_update_every", p.pipeline_parallel_update_every);
  v.field("pipeline_parallel_schedule_csv", p.pipeline_parallel_schedule_csv);
  v.field("fsdp_reshard_after_forward", p.fsdp_reshard_after_forward);
  v.field("fsdp_reshard_degree", p.fsdp_reshard_degree);
  v.field("fsdp_prefetch", p.fsdp_prefetch);
  v.field("fsdp_backward_prefetch", p.fsdp_backward_prefetch);
  v.field("fsdp_min_num_params", p.fsdp_min_num_params);
  v.field("fsdp_persistence_threshold", p.fsdp_persistence_threshold);
  v.field("fsdp_max_active_stages", p.fsdp_max_active_stages);
  v.field("accumulate_sharded_gradients", p.accumulate_sharded_gradients);
  v.field("offload", p.offload);
  v.field("offload_optimizer_device", p.offload_optimizer_device);
  v.field("offload_param_device", p.offload_param_device);
  v.field("offload_nvme_path", p.offload_nvme_path);
  v.field("offload_buffer_count", p.offload_buffer_count);
  v.field("offload_pipeline_read", p.offload_pipeline_read);
  v.field("offload_pipeline_write", p.offload_pipeline_write);
  v.field("bucket_cap_mb", p.bucket_cap, UnitPrefix::Mebi);
  v.field("first_bucket_cap_mb", p.first_bucket_cap, UnitPrefix::Mebi);
  v.field("gradient_as_bucket_view", p.gradient_as_bucket_view);
  v.field("overlap_grad_reduce", p.overlap_grad_reduce);
  v.field("sync_batch_norm", p.sync_batch_norm);
  v.field("overlap_param_gather", p.overlap_param_gather);
  v.field("zero_quantized_weights", p.zero_quantized_weights);
  v.field("zero_quantized_gradients", p.zero_quantized_gradients);
  v.field("zero_quantized_gradients_bits", p.zero_quantized_gradients_bits);
  v.field("zero_quantized_gradients_inner_degree", p.zero_quantized_gradients_inner_degree);
  v.field("zero_quantized_block_size", p.zero_quantized_block_size);
}

template <class V>
void describe(V& v, PowerSgdSpec& p) {
  v.field("matrix_approximation_rank", p.matrix_approximation_rank);
  v.field("use_error_feedback", p.use_error_feedback);
  v.field("min_compression_rate", p.min_compression_rate);
}

template <class V>
void describe(V& v, LocalSgdSpec& l) {
  v.field("method", l.method);
  v.field("sync_steps", l.sync_steps);
  v.field("outer_lr", l.outer_lr);
  v.field("outer_momentum", l.outer_momentum);
  v.field("outer_nesterov", l.outer_nesterov);
  v.field("offload", l.offload);
}

template <class V>
void describe(V& v, CheckpointSpec& c) {
  v.field("interval", c.interval);
  v.field("folder", c.folder);
  v.field("keep_latest_k", c.keep_latest_k);
  v.field("keep_every", c.keep_every);
}

template <class V>
void describe(V& v, ValidationSpec& s) {
  v.field("dataset", s.dataset);
  v.field("freq", s.freq);
  v.field("steps", s.steps);
}

template <class V>
void describe(V& v, CampaignPhaseSpec& p) {
  v.field("name", p.name);
  v.field("scenario", p.scenario);
  v.field("tokens", p.tokens);
  v.field("share", p.share);
  v.field("seq_len", p.seq_len);
  v.field("global_batch_size", p.global_batch_size);
}

template <class V>
void describe(V& v, CampaignSpec& c) {
  v.field("tokens", c.tokens);
  v.field("days", c.days);
  v.field("failures", c.failures);
  v.field("gpu_mtbf_hours", c.gpu_mtbf, UnitPrefix::Hours);
  v.field("node_mtbf_hours", c.node_mtbf, UnitPrefix::Hours);
  v.field("switch_mtbf_hours", c.switch_mtbf, UnitPrefix::Hours);
  v.field("job_mtbf_hours", c.job_mtbf, UnitPrefix::Hours);
  v.field("gpus_per_switch", c.gpus_per_switch);
  v.field("detection_s", c.detection, UnitPrefix::One);
  v.field("requeue_s", c.requeue, UnitPrefix::One);
  v.field("swap_s", c.swap, UnitPrefix::One);
  v.field("spare_nodes", c.spare_nodes);
  v.field("repair_hours", c.repair, UnitPrefix::Hours);
  v.field("load_s", c.load, UnitPrefix::One);
  v.field("communicator_ms_per_gpu", c.communicator_per_gpu, UnitPrefix::Milli);
  v.field("warmup_s", c.warmup, UnitPrefix::One);
  v.field("evaluation_interval", c.evaluation_interval);
  v.field("evaluation_s", c.evaluation, UnitPrefix::One);
  v.field("save", c.save);
  v.field("save_to", c.save_to);
  v.field("storage_gb_s_per_node", c.storage_per_node, UnitPrefix::Giga);
  v.field("straggler_share", c.straggler_share);
  v.field("straggler_slowdown", c.straggler_slowdown);
  v.field("pue", c.pue);
  v.field("carbon_g_per_kwh", c.carbon_g_per_kwh);
  v.tables("phase", c.phases);
}

template <class V>
void describe(V& v, CostsSpec& c) {
  v.field("forward", c.forward);
  v.field("backward_input", c.backward_input);
  v.field("backward_weight", c.backward_weight);
  v.field("p2p", c.p2p);
  v.field("pair_factor", c.pair_factor);
}

template <class V>
void describe(V& v, WhatIfSpec& w) {
  v.field("ideal_network", w.ideal_network);
  v.field("bandwidth_factor", w.bandwidth_factor);
  v.field("straggler_rank", w.straggler_rank);
  v.field("straggler_slowdown", w.straggler_slowdown);
  v.field("jitter", w.jitter);
  v.field("jitter_distribution", w.jitter_distribution);
  v.field("jitter_seed", w.jitter_seed);
}

template <class V>
void describe(V& v, DataLoaderSpec& d) {
  v.field("sample_ms", d.sample, UnitPrefix::Milli);
  v.field("num_workers", d.num_workers);
  v.field("prefetch_factor", d.prefetch_factor);
  v.field("pin_memory", d.pin_memory);
}

template <class V>
void describe(V& v, LinkSpec& l) {
  v.field("bandwidth_gb_s", l.bandwidth, UnitPrefix::Giga);
  v.field("latency_us", l.latency, UnitPrefix::Micro);
}

template <class V>
void describe(V& v, NetworkSpec& n) {
  v.field("library", n.library);
  v.field("node_link", n.node_link);
  v.field("switched", n.switched);
  v.field("in_switch_reduction_gb_s", n.in_switch_reduction, UnitPrefix::Giga);
  v.field("low_latency_gb_s", n.low_latency, UnitPrefix::Giga);
  v.field("channels", n.channels);
  v.field("ports_per_node", n.ports_per_node);
  v.field("sockets_gb_s", n.sockets, UnitPrefix::Giga);
  v.field("leaf_ports", n.leaf_ports);
  v.field("rails", n.rails);
  v.field("oversubscription", n.oversubscription);
  v.field("spine_latency_us", n.spine_latency, UnitPrefix::Micro);
}

template <class V>
void describe(V& v, DriveSpec& d) {
  v.field("count", d.count);
  v.field("capacity_gb", d.capacity, UnitPrefix::Giga);
  v.field("read_gb_s", d.read, UnitPrefix::Giga);
  v.field("write_gb_s", d.write, UnitPrefix::Giga);
  v.field("latency_us", d.latency, UnitPrefix::Micro);
  v.field("queue_depth", d.queue_depth);
  v.field("request_mb", d.request, UnitPrefix::Mebi);
}

template <class V>
void describe(V& v, DeviceSpec& d) {
  v.field("name", d.name);
  v.field("memory_gb", d.memory, UnitPrefix::Giga);
  v.field("memory_bandwidth_gb_s", d.memory_bandwidth, UnitPrefix::Giga);
  v.field("host_bandwidth_gb_s", d.host_bandwidth, UnitPrefix::Giga);
  v.field("host_memory_bandwidth_gb_s", d.host_memory_bandwidth, UnitPrefix::Giga);
  v.field("host_memory_gb", d.host_memory, UnitPrefix::Giga);
  v.field("tf32_tflops", d.tf32_rate, UnitPrefix::Tera);
  v.field("fp8_tflops", d.fp8_rate, UnitPrefix::Tera);
  v.field("fp4_tflops", d.fp4_rate, UnitPrefix::Tera);
  v.field("launch_overhead_us", d.launch_overhead, UnitPrefix::Micro);
  v.field("hand_over_us", d.hand_over, UnitPrefix::Micro);
  v.field("compute_capability", d.compute_capability);
  v.field("compute_units", d.compute_units);
  v.field("matmul_efficiency", d.matmul_efficiency);
  v.field("concurrent_ranks", d.concurrent_ranks);
  v.field("overlap_slowdown", d.overlap_slowdown);
  v.field("dollars_per_hour", d.dollars_per_hour);
  v.field("watts", d.watts);
  v.field("peak_tflops", d.peaks);
}

/// [framework] of a scenario, and the whole of frameworks/*.toml but for the preset's name.
template <class V>
void describe(V& v, FrameworkSpec& f) {
  v.field("attention", f.attention);
  v.field("fused_softmax", f.fused_softmax);
  v.field("attention_dropout", f.attention_dropout);
  v.field("fused_residual", f.fused_residual);
  v.field("fused_norm", f.fused_norm);
  v.field("fused_activation", f.fused_activation);
  v.field("channels_last", f.channels_last);
  v.field("float32_logits", f.float32_logits);
  v.field("kept_logits", f.kept_logits);
  v.field("fused_gradient_accumulation", f.fused_gradient_accumulation);
  v.field("fused_optimizer", f.fused_optimizer);
  v.field("overlaps_weight_gradients", f.overlaps_weight_gradients);
  v.field("recomputes_all", f.recomputes_all);
  v.field("fp8", f.fp8);
  v.field("fp4", f.fp4);
  v.field("new_capability", f.new_capability);
  v.field("new_matmul_rate", f.new_matmul_rate);
  v.field("host_kernel_us", f.host_kernel, UnitPrefix::Micro);
  v.field("launch_blocking", f.launch_blocking);
  v.field("layer_us", f.layer, UnitPrefix::Micro);
  v.field("step_us", f.step, UnitPrefix::Micro);
  v.field("context_mb", f.context, UnitPrefix::Mebi);
  v.field("workspaces", f.workspaces);
  v.field("communicators", f.communicators);
  v.field("caching_allocator", f.caching_allocator);
  v.field("fragments", f.fragments);
  v.field("cached", f.cached);
  v.field("optimizer_bytes", f.optimizer_bytes);
  v.field("gradient_copies", f.gradient_copies);
  v.field("gradient_placeholders", f.gradient_placeholders);
  v.field("fp8_parameters", f.fp8_parameters);
  v.field("gradients_as_parameters", f.gradients_as_parameters);
  v.field("overlap_grad_reduce", f.overlap_grad_reduce);
  v.field("overlap_param_gather", f.overlap_param_gather);
  v.field("parameter_part_us", f.parameter_part, UnitPrefix::Micro);
  v.field("waits_for_messages", f.waits_for_messages);
  v.field("prefetches_gathers", f.prefetches_gathers);
  v.field("scatters_messages", f.scatters_messages);
  v.field("overlaps_products", f.overlaps_products);
}

template <class V>
void describe(V& v, EfficiencyCurve& e) {
  v.field("kernel", e.kernel);
  v.field("points", e.points);
  v.field("width", e.width);
  v.field("dtype", e.dtype);
}

/// [cluster] of a scenario, and the whole of a profile (hardware/*.toml).
template <class V>
void describe(V& v, ClusterSpec& c) {
  v.field("name", c.name);
  v.field("nodes", c.nodes);
  v.field("devices_per_node", c.devices_per_node);
  v.field("ranks_per_device", c.ranks_per_device);
  v.tables("efficiency", c.device.efficiency);
  v.table("device", c.device);
  v.table("intra_node", c.intra_node);
  v.table("inter_node", c.inter_node);
  v.table("network", c.network);
  v.table("drives", c.drives);
}

}  // namespace lockstep
