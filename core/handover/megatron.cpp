#include <algorithm>
#include <set>

#include "core/handover/megatron_kernels.hpp"
#include "core/handover/words.hpp"
#include "core/spec/foreign_names.hpp"

namespace lockstep {
namespace {

/// What Megatron-LM calls a key of ours.
std::string named(std::string_view key) { return std::string(name_for(Trainer::Megatron, key)); }

/// What Megatron Core's recompute_modules have for a policy, and whether that is the same.
struct Modules {
  std::string names;
  bool same;
};
Modules modules_for(const std::string& policy) {
  if (find_recompute_policy(policy)->is_module) return {policy, true};
  if (policy == "attention") return {"core_attn", true};
  if (policy == "norm") return {"layernorm", true};
  if (policy == "activation") return {"mlp", false};
  return {policy == "torchtitan" ? "layernorm mlp moe" : "layernorm mlp", false};
}

/// Arguments, one a line, so that the text can be given as "$(< FILE)".
class Arguments {
 public:
  void flag(const std::string& name) { text_ += "--" + name + "\n"; }
  void flag_if(bool set, const std::string& name) {
    if (set) flag(name);
  }
  void set(const std::string& name, const std::string& value) {
    text_ += "--" + name + " " + value + "\n";
  }
  void set(const std::string& name, std::int64_t value) { set(name, std::to_string(value)); }
  void number(const std::string& name, double value) { set(name, number_text(value)); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Its norms are those of --qk-layernorm, and without --rope-type positions would be YaRN's.
void say_latent_attention(const ModelSpec& m, Arguments& a) {
  const LatentSpec& latent = m.latent;
  a.flag("multi-latent-attention");
  if (latent.q_lora_rank > 0) a.set(named("model.q_lora_rank"), latent.q_lora_rank);
  a.set(named("model.kv_lora_rank"), latent.kv_lora_rank);
  a.set(named("model.qk_nope_head_dim"), latent.qk_nope_head_dim);
  a.set(named("model.qk_rope_head_dim"), latent.qk_rope_head_dim);
  a.set(named("model.v_head_dim"), latent.v_head_dim);
  a.flag(named("model.qk_norm"));
  a.set("rope-type", "rope");
}

/// Its default divides a matrix over tensor-parallel ranks and orthogonalizes the parts
/// ("blockwise"); "duplicated" gathers it, as here. Queries, keys and values are apart by default.
void say_muon(const OptimizerSpec& o, Arguments& a, std::vector<std::string>& unsaid) {
  const bool original = o.adjust_lr_fn == AdjustLr::Original;
  a.number("muon-momentum", o.momentum);
  a.flag_if(o.nesterov, named("optimizer.nesterov"));
  a.set(named("optimizer.ns_steps"), std::int64_t{o.ns_steps});
  a.set(named("optimizer.adjust_lr_fn"), original ? "shape_scaling" : "spectral");
  a.number("muon-extra-scale-factor", original ? 1 : 0.2);
  a.set("muon-tp-mode", "duplicated");
  a.set(named("optimizer.ns_dtype"), o.ns_dtype == PartDType::BF16 ? "medium" : "high");
  leave_unsaid(unsaid, o.muon_lr > 0, "optimizer.muon_lr: its matrices have the common rate");
}

/// Which blocks have experts: every so many, or a list in Python.
void say_blocks_with_experts(const ModelSpec& m, Arguments& a) {
  if (m.dense_layers == 0) return a.set(named("model.expert_period"), m.expert_period);
  std::string list = "([0]*" + std::to_string(m.dense_layers) + "+[1]*" +
                     std::to_string(m.layers - m.dense_layers) + ")";
  if (m.expert_period > 1) {
    list.clear();
    for (std::int64_t i = 0; i < m.layers; ++i) {
      list += (i == 0 ? "[" : ",") + std::string(m.has_experts(i) ? "1" : "0");
    }
    list += "]";
  }
  a.set(named("model.expert_period"), list);
}

void say_model(const Scenario& s, Arguments& a, std::vector<std::string>& unsaid) {
  const ModelSpec& m = s.model;
  a.set(named("model.layers"), m.layers);
  a.set(named("model.hidden"), m.hidden);
  a.set(named("model.ffn_hidden"), m.dense_width());
  a.set(named("model.heads"), m.heads);
  if (m.is_latent()) {
    say_latent_attention(m, a);
  } else {
    a.set(named("model.head_dim"), m.head_dim);
  }
  if (m.kv_heads != m.heads) {
    a.flag("group-query-attention");
    a.set(named("model.kv_heads"), m.kv_heads);
  }
  a.set(named("training.seq_len"), s.training.seq_len);
  a.set(named("model.max_seq_len"), std::max<std::int64_t>(m.max_seq_len, s.training.seq_len));
  a.set("tokenizer-type", "NullTokenizer");  // takes numbers for tokens: it starts as it is
  a.set(named("model.vocab"), m.vocab);
  a.set("make-vocab-size-divisible-by", 1);  // times the tensor-parallel degree
  leave_unsaid(unsaid, m.vocab % s.strategy.tensor_parallel_degree != 0,
               "model.vocab = " + std::to_string(m.vocab) +
                   ": it rounds it up to a multiple of tensor_parallel_degree");
  a.number(named("model.norm_eps"), m.norm_eps);
  a.number(named("training.attention_dropout"), s.training.attention_dropout);
  a.number(named("training.residual_dropout"), s.training.residual_dropout);
  const BlockParts parts = m.parts();
  if (parts.norm == NormKind::RmsNorm) a.set("normalization", "RMSNorm");
  a.flag_if(parts.activation == Activation::Swiglu, "swiglu");
  a.flag_if(parts.activation == Activation::SquaredRelu, "squared-relu");
  leave_unsaid(unsaid,
               parts.activation == Activation::Relu || parts.activation == Activation::Geglu,
               "model.activation: it has GELU, SwiGLU and squared ReLU");
  a.flag_if(!parts.biases, "disable-bias-linear");
  a.set("position-embedding-type", m.is_rotary()          ? "rope"
                                   : m.learns_positions() ? "learned_absolute"
                                                          : "none");
  a.flag_if(m.qk_norm, named("model.qk_norm"));
  a.flag_if(m.qkv_bias && !parts.biases, named("model.qkv_bias"));
  if (m.is_rotary()) {
    a.set(named("model.rope_theta"), static_cast<std::int64_t>(m.rope_theta));
    if (m.rotary_fraction != 1) a.number("rotary-percent", m.rotary_fraction);
    const bool llama3 = m.rope_scaling.factor != 1 && m.rope_scaling.original_length > 0;
    if (llama3) {
      a.flag("use-rope-scaling");
      a.number(named("model.rope_factor"), m.rope_scaling.factor);
    }
    leave_unsaid(unsaid, m.rope_scaling.factor != 1 && !llama3,
                 "model.rope_factor: its linear scaling is --rotary-seq-len-interpolation-factor, "
                 "which takes whole numbers");
  }
  leave_unsaid(unsaid, s.training.embedding_dropout != s.training.residual_dropout,
               "training.embedding_dropout: its --hidden-dropout is of embeddings and residuals");
  a.flag_if(!m.tied_embeddings, named("model.tied_embeddings"));
  if (m.experts == 0) return;
  a.set(named("model.experts"), m.experts);
  a.set(named("model.experts_per_token"), m.experts_per_token);
  say_blocks_with_experts(m, a);
  if (m.dense_width() != m.ffn_hidden) a.set("moe-ffn-hidden-size", m.ffn_hidden);
  if (m.shared_expert_hidden > 0) {
    a.set(named("model.shared_expert_hidden"), m.shared_expert_hidden);
    a.flag_if(m.shared_expert_gate, named("model.shared_expert_gate"));
  }
  if (m.capacity_factor > 0) a.number(named("model.capacity_factor"), m.capacity_factor);
  if (m.expert_rank_capacity_factor > 0) {
    a.number(named("model.expert_rank_capacity_factor"), m.expert_rank_capacity_factor);
  }
  const bool sigmoids = m.router_score == RouterScore::Sigmoid;
  if (sigmoids) a.set(named("model.router_score"), "sigmoid");
  if (m.router_bias_update_rate > 0 && sigmoids) {
    a.flag("moe-router-enable-expert-bias");
    a.number(named("model.router_bias_update_rate"), m.router_bias_update_rate);
  }
  leave_unsaid(unsaid, m.router_bias_update_rate > 0 && !sigmoids,
               "model.router_bias_update_rate: its experts have biases beside sigmoids only");
  if (m.router_aux_loss_coef > 0) {
    a.set("moe-router-load-balancing-type", "aux_loss");
    a.number(named("model.router_aux_loss_coef"), m.router_aux_loss_coef);
  } else {
    a.set("moe-router-load-balancing-type", "none");
  }
}

void say_pipeline(const Scenario& s, Arguments& a, std::vector<std::string>& unsaid) {
  const StrategySpec& p = s.strategy;
  a.set(named("parallelism.pipeline_parallel_degree"), p.pipeline_parallel_degree);
  if (p.pipeline_parallel_degree == 1) return;
  const std::int64_t stages = p.num_stages();
  const bool interleaved = p.pipeline_parallel_schedule == PipelineSchedule::Interleaved1F1B;
  if (interleaved) {
    a.set(named("parallelism.pipeline_parallel_virtual_stages"),
          p.pipeline_parallel_virtual_stages);
    if (p.pipeline_parallel_microbatch_group_size > 0) {
      a.set(named("parallelism.pipeline_parallel_microbatch_group_size"),
            p.pipeline_parallel_microbatch_group_size);
    }
  }
  leave_unsaid(unsaid, !interleaved && p.pipeline_parallel_schedule != PipelineSchedule::OneFOneB,
               "parallelism.pipeline_parallel_schedule = \"" +
                   std::string(rules_of(p.pipeline_parallel_schedule).name) +
                   "\": Megatron-LM runs 1F1B, interleaved or not");
  leave_unsaid(unsaid, !p.pipeline_parallel_schedule_csv.empty(),
               "parallelism.pipeline_parallel_schedule_csv: it takes no schedule from a file");
  const std::vector<int>& blocks = p.pipeline_parallel_layers_per_stage;
  if (!blocks.empty() && stages == p.pipeline_parallel_degree) {
    a.set(named("parallelism.pipeline_parallel_layers_per_stage"), blocks.front());
    a.set("decoder-last-pipeline-num-layers", blocks.back());
    bool even = true;
    for (std::size_t i = 2; i + 1 < blocks.size(); ++i) even = even && blocks[i] == blocks[1];
    leave_unsaid(unsaid, !even,
                 "parallelism.pipeline_parallel_layers_per_stage: between the first and the last "
                 "stage its stages are equal, or given by --pipeline-model-parallel-layout");
  } else {
    leave_unsaid(unsaid, !blocks.empty() || s.model.layers % stages != 0,
                 "the blocks of each stage: write them as --pipeline-model-parallel-layout");
  }
}

void say_data_parallel(const Scenario& s, Arguments& a, std::vector<std::string>& unsaid) {
  const StrategySpec& p = s.strategy;
  const bool shards = p.data_parallel_shard_degree > 1 || p.context_parallel_degree > 1;
  const bool muon = s.optimizer.is_muon();
  if (shards && p.zero_stage == 1 && !muon) a.flag("use-distributed-optimizer");
  leave_unsaid(unsaid, muon && shards && p.zero_stage >= 1,
               "parallelism.zero_stage: its dist_muon gives every matrix with its momentum to one "
               "of the data-parallel ranks, and here each has a shard of all");
  if (shards && p.zero_stage >= 2) {
    a.flag("use-megatron-fsdp");
    a.set(named("parallelism.zero_stage"),
          p.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
    a.flag("use-distributed-optimizer");
    a.set("ckpt-format", "fsdp_dtensor");
  }
  const bool hybrid = shards && p.zero_stage >= 1 && p.data_parallel_replicate_degree > 1;
  if (hybrid)
    a.set(named("parallelism.data_parallel_replicate_degree"), p.data_parallel_replicate_degree);
  a.flag_if(p.overlap_grad_reduce, named("parallelism.overlap_grad_reduce"));
  a.flag_if(shards && ((p.zero_stage <= 2 && p.overlap_param_gather) || p.zero_stage == 3),
            named("parallelism.overlap_param_gather"));
  a.flag_if(p.offload == Offload::Optimizer, named("parallelism.offload"));
  leave_unsaid(unsaid, p.offload == Offload::Parameters,
               "parallelism.offload = \"parameters\": it keeps parameters on the device");
  leave_unsaid(unsaid, p.offloads_to_drive(),
               "parallelism.offload_optimizer_device and offload_param_device = \"nvme\": it "
               "offloads to host memory");
  leave_unsaid(unsaid, p.reshards_to_fewer() || p.fsdp_persistence_threshold > 0,
               "parallelism.fsdp_reshard_degree, fsdp_persistence_threshold: it has neither");
}

/// What is not fused, if the plan is simulated as Megatron runs it.
void say_kernels(const Scenario& s, Arguments& a, std::vector<std::string>& unsaid) {
  const FrameworkSpec& framework = s.cluster.framework;
  if (!software_of(s.cluster).starts_with("megatron-")) return;
  const bool gated = s.model.parts().activation == Activation::Swiglu;
  for (const MegatronKernelFlag& row : kMegatronKernelFlags) {
    const bool other = row.argument == (gated ? "no-bias-gelu-fusion" : "no-bias-swiglu-fusion");
    const bool stands = row.member != &FrameworkSpec::scatters_messages ||
                        (s.strategy.pipeline_parallel_degree > 1 &&
                         s.strategy.tensor_parallel_degree > 1 && !s.strategy.sequence_parallel());
    a.flag_if(!other && stands && framework.*row.member == row.value, std::string(row.argument));
  }
  for (const MegatronAttention& row : kMegatronAttention) {
    if (row.kernel != framework.attention) continue;
    a.set("attention-backend", std::string(row.backend));
    break;
  }
  leave_unsaid(unsaid,
               framework.overlaps_products && s.strategy.sequence_parallel() &&
                   s.strategy.tensor_parallel_chunks == 1,
               "[framework] overlaps_products: add --tp-comm-overlap");
}

}  // namespace

void hand_to_megatron(const Scenario& s, Handover& h) {
  const StrategySpec& p = s.strategy;
  const TrainingSpec& t = s.training;
  Arguments a;
  say_model(s, a, h.unsaid);
  a.set(named("parallelism.tensor_parallel_degree"), p.tensor_parallel_degree);
  a.flag_if(p.sequence_parallel(), named("parallelism.enable_sequence_parallel"));
  a.flag_if(p.tensor_parallel_chunks > 1, named("parallelism.tensor_parallel_chunks"));
  leave_unsaid(h.unsaid, p.tensor_parallel_chunks > 1 && p.tensor_parallel_chunks != 4,
               "parallelism.tensor_parallel_chunks = " + std::to_string(p.tensor_parallel_chunks) +
                   ": num_splits in the file of --tp-comm-overlap-cfg, which is 4 without one");
  say_pipeline(s, a, h.unsaid);
  a.set(named("parallelism.context_parallel_degree"), p.context_parallel_degree);
  if (p.context_parallel_degree > 1) {
    const bool both = p.passes_keys() && p.head_ranks() > 1;
    a.set(named("parallelism.context_parallel_method"), p.gathers_keys()   ? "all_gather"
                                                        : !p.passes_keys() ? "a2a"
                                                        : both             ? "a2a+p2p"
                                                                           : "p2p");
    if (both) {
      a.set(named("parallelism.context_parallel_ulysses_degree"),
            std::to_string(p.head_ranks()) + " " + std::to_string(p.key_ranks()));
    }
    leave_unsaid(h.unsaid, p.gathers_keys() && p.head_ranks() > 1,
                 "parallelism.context_parallel_ulysses_degree: cp-comm-type knows heads exchanged "
                 "beside keys passed on (a2a+p2p), not beside keys gathered");
  }
  if (s.model.experts > 0) {
    a.set(named("parallelism.expert_parallel_degree"), p.expert_parallel_degree);
    a.set(named("parallelism.expert_tensor_parallel_degree"), p.expert_tensor_parallel_degree);
    leave_unsaid(
        h.unsaid,
        p.tensor_parallel_degree > 1 && p.expert_tensor_parallel_degree == 1 &&
            p.experts_over_tp() == 1,
        "experts that every rank of tensor parallelism holds whole, of those that "
        "expert_parallel_degree gives it: with expert-tensor-parallel-size 1 it divides them "
        "over these ranks, too (parallelism.expert_parallel_folding)");
    leave_unsaid(
        h.unsaid,
        p.expert_parallel_degree > 1 && p.context_parallel_degree > 1 && !p.experts_over_cp(),
        "experts that every rank of context parallelism holds: it divides them over these "
        "ranks before those of data parallelism (parallelism.expert_parallel_folding)");
    leave_unsaid(
        h.unsaid,
        p.expert_parallel_degree > 1 && p.tensor_parallel_degree > 1 && !p.sequence_parallel(),
        "parallelism.enable_sequence_parallel = false: beside expert parallelism it "
        "refuses tensor parallelism without sequence parallelism");
  }
  say_data_parallel(s, a, h.unsaid);
  say_kernels(s, a, h.unsaid);

  a.set(named("training.local_batch_size"), s.microbatch_size());
  a.set(named("training.global_batch_size"), s.global_batch_size());
  a.set(named("training.steps"), t.steps);
  a.set(named("training.seed"), static_cast<std::int64_t>(t.seed));
  a.flag_if(t.reset_attention_mask, named("training.reset_attention_mask"));
  a.flag_if(t.reset_position_ids, named("training.reset_position_ids"));
  a.flag_if(t.eod_mask_loss, named("training.eod_mask_loss"));
  leave_unsaid(h.unsaid, t.has_documents(),
               "training.eod_token: it is the end of a text of the tokenizer that it loads");
  a.number(named("training.max_norm"), t.max_norm);
  a.flag_if(t.param_dtype() == DType::BF16, named("training.mixed_precision_param"));
  a.flag_if(t.param_dtype() == DType::F16, "fp16");
  a.flag_if(t.param_dtype() == DType::BF16 && t.reduce_dtype() == DType::F32,
            named("training.mixed_precision_reduce"));
  if (t.fp8 != Fp8Format::None) {
    a.set(named("training.fp8"), t.fp8 == Fp8Format::Hybrid ? "hybrid" : "e4m3");
    a.set(named("training.fp8_recipe"), t.fp8_recipe == Fp8Scaling::Blockwise ? "blockwise"
                                        : t.fp8_recipe == Fp8Scaling::Mxfp8   ? "mxfp8"
                                        : t.fp8_recipe == Fp8Scaling::Delayed ? "delayed"
                                                                              : "tensorwise");
    if (t.fp8_recipe == Fp8Scaling::Delayed) {
      a.set(named("training.fp8_amax_history_len"), t.fp8_amax_history_len);
      a.set(named("training.fp8_amax_compute_algo"),
            t.fp8_amax_compute_algo == Fp8AmaxAlgo::Max ? "max" : "most_recent");
      a.set(named("training.fp8_margin"), t.fp8_margin);
    }
    leave_unsaid(h.unsaid, s.cluster.framework.fp8_parameters,
                 "[framework] fp8_parameters: add --fp8-param-gather, which gathers them so, too");
    if (t.num_layers_at_start_in_bf16 + t.num_layers_at_end_in_bf16 > 0) {
      a.flag("first-last-layers-bf16");
      a.set(named("training.num_layers_at_start_in_bf16"), t.num_layers_at_start_in_bf16);
      a.set(named("training.num_layers_at_end_in_bf16"), t.num_layers_at_end_in_bf16);
    }
    a.flag_if(s.model.is_dropless(), "moe-router-padding-for-fp8");
    leave_unsaid(h.unsaid, t.fp8_block_size > 0,
                 "training.fp8_block_size: its blocks have 128 elements, or 32 with mxfp8");
  }
  leave_unsaid(h.unsaid, t.dtype != DType::F32, "training.dtype: its optimizer keeps float32");
  leave_unsaid(h.unsaid, p.pipeline_parallel_degree > 1 && s.accumulation_steps() > 1,
               "parallelism.pipeline_parallel_microbatches: all microbatches of a step pass its "
               "pipeline in one flush, and here in " +
                   std::to_string(s.accumulation_steps()));
  leave_unsaid(
      h.unsaid,
      s.optimizer.weight_decay_on == DecayedParameters::All && s.optimizer.weight_decay > 0,
      "optimizer.weight_decay_on = \"all\": its weight decay leaves out norms and biases");

  const OptimizerRow& known = info(s.optimizer.name);
  const OptimizerRow& optimizer =
      known.megatron.empty() ? info(OptimizerKind::AdamW) : known;  // what it is there
  const bool divided = p.zero_stage >= 1 && p.state_shards() > 1;
  a.set(named("optimizer.name"),
        (s.optimizer.is_muon() && divided ? "dist_" : "") + std::string(optimizer.megatron));
  leave_unsaid(h.unsaid, known.megatron.empty(),
               "optimizer.name: it has no " + std::string(known.name));
  a.number(named("optimizer.lr"), s.optimizer.lr);
  a.number(named("lr_scheduler.min_lr_factor"), s.optimizer.lr * s.lr_scheduler.min_lr_factor);
  a.number(named("optimizer.weight_decay"), s.optimizer.weight_decay);
  if (s.optimizer.is_muon()) say_muon(s.optimizer, a, h.unsaid);
  if (!optimizer.reads("beta1")) {
    a.number(named("optimizer.momentum"), s.optimizer.momentum);
  } else {
    a.number(named("optimizer.beta1"), s.optimizer.beta1);
    a.number(named("optimizer.beta2"), s.optimizer.beta2);
    a.number(named("optimizer.eps"), s.optimizer.eps);
  }
  if (s.optimizer.state_dtype == StateDType::BF16) {
    a.flag("use-precision-aware-optimizer");
    a.set("exp-avg-dtype", "bf16");
    a.set("exp-avg-sq-dtype", "bf16");
  }
  const LrSchedulerSpec& schedule = s.lr_scheduler;
  a.set(named("lr_scheduler.warmup_steps"), schedule.warmup_steps);
  if (schedule.decay_ratio == 0) {
    a.set(named("lr_scheduler.decay_type"), "constant");
  } else {
    a.set(named("lr_scheduler.decay_type"),
          schedule.decay_type == DecayType::Cosine ? "cosine" : "linear");
    a.set(named("lr_scheduler.decay_ratio"), t.steps);
    leave_unsaid(h.unsaid, schedule.decay_ratio < 1,
                 "[lr_scheduler]: it decays from the warm-up on, linearly or as a cosine; a part "
                 "that stays constant is --lr-decay-style WSD");
  }

  const ActivationCheckpointSpec& recompute = s.activation_checkpoint;
  if (recompute.mode == ActivationCheckpoint::Full) {
    const std::vector<int>& counts = recompute.recomputed_layers_per_stage;
    a.set(named("activation_checkpoint.mode"), "full");
    a.set("recompute-method", counts.empty() ? "uniform" : "block");
    a.set("recompute-num-layers",
          counts.empty() ? 1 : *std::max_element(counts.begin(), counts.end()));
    leave_unsaid(h.unsaid, std::set<int>(counts.begin(), counts.end()).size() > 1,
                 "activation_checkpoint.recomputed_layers_per_stage: all its stages recompute "
                 "equally many blocks, here as many as the one that recomputes most");
  } else if (recompute.mode == ActivationCheckpoint::Selective) {
    std::string modules;
    bool all = true;
    for (const std::string& policy : recompute.policies()) {
      const Modules nearest = modules_for(policy);
      all = all && nearest.same;
      modules += (modules.empty() ? "" : " ") + nearest.names;
    }
    a.set(named("activation_checkpoint.mode"), "selective");
    a.set(named("activation_checkpoint.selective_ac_option"),
          modules.empty() ? "layernorm mlp" : modules);
    leave_unsaid(h.unsaid, !all || modules.empty(),
                 "activation_checkpoint.selective_ac_option = \"" + recompute.selective_ac_option +
                     "\": of feed-forward networks it recomputes all or nothing, and not every "
                     "k-th block");
    leave_unsaid(h.unsaid, !recompute.recomputed_layers_per_stage.empty(),
                 "activation_checkpoint.recomputed_layers_per_stage: it says so of full "
                 "recomputation only");
  }
  if (s.checkpoint.interval > 0) {
    a.set(named("checkpoint.interval"), s.checkpoint.interval);
    a.set(named("checkpoint.folder"), s.checkpoint.folder);
  }
  leave_unsaid(h.unsaid, !t.dataset.empty(),
               "training.dataset: it reads .bin and .idx of its own tools: put --data-path in the "
               "place of --mock-data, and your tokenizer in that of NullTokenizer");
  a.flag("mock-data");  // it refuses to start without data
  h.text = a.text();
  h.launch = torchrun(s) + " pretrain_gpt.py $(< FILE)";
}

}  // namespace lockstep
