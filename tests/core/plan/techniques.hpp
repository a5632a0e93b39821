// Techniques: what a scenario may say beside its layout, each of which changes what ranks compute,
// keep or send. For tests that judge layouts of any task in two ways.
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/plan/space.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep::test {

using Overrides = std::vector<std::string>;

/// Overrides for a model of Llama's or GPT-2's kind with 8 blocks or more and sequences of 2,048
/// tokens or more. Not all go with each other or with either kind.
inline const std::vector<Overrides>& techniques() {
  static const std::vector<Overrides> all = {
      {"training.fp8=hybrid"},
      {"training.fp8=e4m3", "training.fp8_recipe=mxfp8"},
      {"training.fp8=hybrid", "training.fp8_recipe=delayed"},
      {"training.fp8=hybrid", "training.fp8_recipe=tensorwise"},
      {"training.fp8=hybrid", "training.num_layers_at_start_in_bf16=1",
       "training.num_layers_at_end_in_bf16=1"},
      {"training.fp8=hybrid", "training.num_layers_at_start_in_bf16=2"},
      {"training.dtype=bfloat16", "training.stochastic_rounding=true"},
      {"training.mixed_precision_reduce=float32"},
      {"training.max_norm=0.0"},
      {"training.reset_attention_mask=true", "training.eod_token=1",
       "training.mean_document_length=700"},
      {"training.residual_dropout=0.1", "training.attention_dropout=0.1"},
      {"optimizer.state_dtype=uint8"},
      {"optimizer.state_dtype=bfloat16"},
      {"optimizer.name=Adafactor"},
      {"optimizer.name=Adafactor", "optimizer.first_moment_decay=0.9"},
      {"optimizer.name=Muon"},
      {"optimizer.name=Muon", "optimizer.ns_dtype=bfloat16"},
      {"optimizer.name=SGD"},
      {"optimizer.weight_decay_on=matrices"},
      {"model.experts=8"},
      {"model.experts=8", "model.capacity_factor=0.0"},
      {"model.experts=8", "model.capacity_factor=0.0", "model.router_imbalance=1.0"},
      {"model.experts=8", "model.capacity_factor=0.0", "training.fp8=hybrid"},
      {"model.experts=8", "model.expert_period=2"},
      {"model.experts=16", "model.experts_per_token=4", "model.dense_layers=1",
       "model.ffn_hidden=1024", "model.dense_ffn_hidden=4096", "model.shared_expert_hidden=1024"},
      {"model.experts=8", "model.capacity_factor=0.0", "model.router_score=sigmoid",
       "model.router_bias_update_rate=0.001"},
      {"model.kv_lora_rank=128", "model.q_lora_rank=256", "model.qk_nope_head_dim=64",
       "model.qk_rope_head_dim=32", "model.v_head_dim=64"},
      {"model.kv_heads=4"},
      {"model.qk_norm=true", "model.qkv_bias=true"},
      {"model.tied_embeddings=true"},
      {"model.causal=false", "model.mask_token=3", "model.norm_place=behind_sum",
       "model.embedding_norm=true", "model.token_types=2", "model.head_transform=true"},
      {"lora.rank=8"},
      {"lora.rank=8", "lora.dropout=0.1"},
      {"parallelism.data_parallel_replicate_degree=2", "local_sgd.method=diloco",
       "local_sgd.sync_steps=20"},
      {"parallelism.data_parallel_replicate_degree=2", "local_sgd.method=local_sgd",
       "local_sgd.sync_steps=4"},
      {"power_sgd.matrix_approximation_rank=4"},
      {"parallelism.zero_quantized_weights=true"},
      {"parallelism.zero_quantized_gradients=true"},
      {"parallelism.fsdp_reshard_degree=2"},
      {"parallelism.fsdp_prefetch=3"},
      {"parallelism.fsdp_min_num_params=20000000"},
      {"parallelism.fsdp_persistence_threshold=100000"},
      {"parallelism.fsdp_max_active_stages=0"},
      {"parallelism.fsdp_reshard_after_forward=always"},
      {"parallelism.fsdp_reshard_after_forward=never"},
      {"parallelism.accumulate_sharded_gradients=always"},
      {"parallelism.accumulate_sharded_gradients=never"},
      {"parallelism.overlap_grad_reduce=false"},
      {"parallelism.gradient_as_bucket_view=false"},
      {"parallelism.tensor_parallel_chunks=2"},
      {"parallelism.context_parallel_method=ring", "training.seq_len=16384",
       "model.max_seq_len=16384"},
      {"parallelism.context_parallel_method=all_gather", "training.seq_len=16384",
       "model.max_seq_len=16384"},
      {"parallelism.context_parallel_method=ring", "parallelism.context_parallel_degree=2",
       "parallelism.context_parallel_ulysses_degree=2", "training.seq_len=16384",
       "model.max_seq_len=16384"},
      {"parallelism.context_parallel_method=ring", "training.seq_len=16384",
       "model.max_seq_len=16384", "training.reset_attention_mask=true", "training.eod_token=1",
       "training.mean_document_length=2000"},
      {"parallelism.pipeline_parallel_p2p=preposted"},
      {"parallelism.pipeline_parallel_p2p=fused"},
      {"parallelism.pipeline_parallel_p2p=blocking"},
      {"parallelism.vocabulary_parallel_pipeline=true", "training.local_batch_size=2",
       "parallelism.pipeline_parallel_degree=2", "parallelism.pipeline_parallel_microbatches=2"},
      {"parallelism.offload=optimizer"},
      {"parallelism.offload=optimizer", "parallelism.offload_optimizer_device=nvme"},
      {"parallelism.offload=parameters"},
      {"parallelism.offload=parameters", "parallelism.offload_optimizer_device=nvme",
       "parallelism.offload_param_device=nvme"},
      {"framework.preset=megatron-core"},
      {"framework.preset=megatron-2023"},
      {"framework.preset=torchtitan"},
      {"framework.preset=deepspeed-2022"},
      {"framework.preset=torchtitan", "training.fp8=hybrid"},
      {"framework.preset=megatron-core", "framework.fp8=block"},
      {"what_if.bandwidth_factor=4.0"},
      {"what_if.ideal_network=true"},
      {"what_if.straggler_rank=1", "what_if.straggler_slowdown=1.5"},
  };
  return all;
}

/// The task with one technique or two; nothing if they do not go together or with it. `names` says
/// which.
inline std::optional<Scenario> with_techniques(const std::string& text, std::mt19937& random,
                                               std::string& names) {
  Overrides chosen;
  const auto& all = techniques();
  for (unsigned n = 1 + random() % 2; n > 0; --n) {
    const Overrides& one = all[random() % all.size()];
    chosen.insert(chosen.end(), one.begin(), one.end());
  }
  names.clear();
  for (const std::string& o : chosen) names += (names.empty() ? "" : " ") + o;
  LoadedScenario loaded = parse_scenario(text, "task", chosen);
  if (!loaded.ok()) return std::nullopt;
  return loaded.points.front().scenario;
}

/// A small task: its text. The memory of few devices may hold only some of its layouts.
inline std::string small_task_text(std::mt19937& random, bool few_devices = false) {
  const auto of = [&](std::initializer_list<const char*> choices) {
    return std::string(choices.begin()[random() % choices.size()]);
  };
  return "[model]\narchitecture = \"" + of({"gpt2", "llama", "llama"}) +
         "\"\nname = \"m\"\nlayers = " + of({"8", "12", "14"}) +
         "\nhidden = " + of({"1024", "2048"}) + "\nheads = 16\nvocab = " + of({"32000", "128256"}) +
         "\nmax_seq_len = 8192\n" + "[training]\nseq_len = " + of({"2048", "4096"}) +
         "\nlocal_batch_size = 1\nglobal_batch_size = " + of({"16", "32", "24"}) +
         "\nmixed_precision_param = \"bfloat16\"\n[cluster]\npreset = \"" +
         of({"a100-80", "h100"}) + "\"\nnodes = " + (few_devices ? "1" : of({"1", "1", "2"})) +
         "\ndevices_per_node = " + (few_devices ? of({"2", "4"}) : of({"2", "4", "8"})) + "\n" +
         (few_devices
              ? "[cluster.device]\nmemory_gb = " + of({"12.0", "20.0", "40.0", "80.0"}) + "\n"
              : "");
}

}  // namespace lockstep::test
