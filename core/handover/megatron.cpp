#include "core/handover/words.hpp"

namespace lockstep {
namespace {

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

void say_model(const Scenario& s, Arguments& a, std::vector<std::string>& unsaid) {
  const ModelSpec& m = s.model;
  a.set("num-layers", m.layers);
  a.set("hidden-size", m.hidden);
  a.set("ffn-hidden-size", m.ffn_hidden);
  a.set("num-attention-heads", m.heads);
  a.set("kv-channels", m.head_dim);
  if (m.kv_heads != m.heads) {
    a.flag("group-query-attention");
    a.set("num-query-groups", m.kv_heads);
  }
  a.set("seq-length", s.training.seq_len);
  a.set("max-position-embeddings", std::max<std::int64_t>(m.max_seq_len, s.training.seq_len));
  a.set("vocab-size", m.vocab);
  a.number("norm-epsilon", m.norm_eps);
  a.number("attention-dropout", 0);
  a.number("hidden-dropout", 0);
  if (m.architecture == Architecture::Llama) {
    a.set("normalization", "RMSNorm");
    a.flag("swiglu");
    a.flag("disable-bias-linear");
    a.set("position-embedding-type", "rope");
    a.set("rotary-base", static_cast<std::int64_t>(m.rope_theta));
    a.flag_if(m.qkv_bias, "add-qkv-bias");
    const bool llama3 = m.rope_scaling.factor != 1 && m.rope_scaling.original_length > 0;
    if (llama3) {
      a.flag("use-rope-scaling");
      a.number("rope-scaling-factor", m.rope_scaling.factor);
    }
    leave_unsaid(unsaid, m.rope_scaling.factor != 1 && !llama3,
                 "model.rope_factor: its linear scaling is --rotary-seq-len-interpolation-factor, "
                 "which takes whole numbers");
  } else {
    a.set("position-embedding-type", "learned_absolute");
  }
  a.flag_if(!m.tied_embeddings, "untie-embeddings-and-output-weights");
  if (m.experts == 0) return;
  a.set("num-experts", m.experts);
  a.set("moe-router-topk", m.experts_per_token);
  a.set("moe-layer-freq", m.expert_period);
  if (m.capacity_factor > 0) a.number("moe-expert-capacity-factor", m.capacity_factor);
  if (m.router_aux_loss_coef > 0) {
    a.set("moe-router-load-balancing-type", "aux_loss");
    a.number("moe-aux-loss-coeff", m.router_aux_loss_coef);
  } else {
    a.set("moe-router-load-balancing-type", "none");
  }
}

void say_pipeline(const Scenario& s, Arguments& a, std::vector<std::string>& unsaid) {
  const StrategySpec& p = s.strategy;
  a.set("pipeline-model-parallel-size", p.pipeline_parallel_degree);
  if (p.pipeline_parallel_degree == 1) return;
  const std::int64_t stages = p.num_stages();
  const bool interleaved = p.pipeline_parallel_schedule == PipelineSchedule::Interleaved1F1B;
  if (interleaved) {
    a.set("num-virtual-stages-per-pipeline-rank", p.pipeline_parallel_virtual_stages);
    if (p.pipeline_parallel_microbatch_group_size > 0) {
      a.set("microbatch-group-size-per-virtual-pipeline-stage",
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
    a.set("decoder-first-pipeline-num-layers", blocks.front());
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
  if (shards && p.zero_stage == 1) a.flag("use-distributed-optimizer");
  if (shards && p.zero_stage >= 2) {
    a.flag("use-megatron-fsdp");
    a.set("data-parallel-sharding-strategy",
          p.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
    a.flag("use-distributed-optimizer");
    a.set("ckpt-format", "fsdp_dtensor");
  }
  const bool hybrid = shards && p.zero_stage >= 1 && p.data_parallel_replicate_degree > 1;
  if (hybrid) a.set("num-distributed-optimizer-instances", p.data_parallel_replicate_degree);
  a.flag_if(p.overlap_grad_reduce, "overlap-grad-reduce");
  a.flag_if(shards && ((p.zero_stage <= 2 && p.overlap_param_gather) || p.zero_stage == 3),
            "overlap-param-gather");
  a.flag_if(p.offload == Offload::Optimizer, "optimizer-cpu-offload");
  leave_unsaid(unsaid, p.offload == Offload::Parameters,
               "parallelism.offload = \"parameters\": it keeps parameters on the device");
  leave_unsaid(unsaid, p.reshards_to_fewer() || p.fsdp_persistence_threshold > 0,
               "parallelism.fsdp_reshard_degree, fsdp_persistence_threshold: it has neither");
}

}  // namespace

void hand_to_megatron(const Scenario& s, Handover& h) {
  const StrategySpec& p = s.strategy;
  const TrainingSpec& t = s.training;
  Arguments a;
  say_model(s, a, h.unsaid);
  a.set("tensor-model-parallel-size", p.tensor_parallel_degree);
  a.flag_if(p.sequence_parallel(), "sequence-parallel");
  say_pipeline(s, a, h.unsaid);
  a.set("context-parallel-size", p.context_parallel_degree);
  if (p.context_parallel_degree > 1) {
    a.set("cp-comm-type", p.gathers_keys() ? "all_gather" : "a2a");
  }
  if (s.model.experts > 0) {
    a.set("expert-model-parallel-size", p.expert_parallel_degree);
    a.set("expert-tensor-parallel-size", p.expert_parallel_folding ? 1 : p.tensor_parallel_degree);
  }
  say_data_parallel(s, a, h.unsaid);

  a.set("micro-batch-size", s.microbatch_size());
  a.set("global-batch-size", s.global_batch_size());
  a.set("train-iters", t.steps);
  a.set("seed", static_cast<std::int64_t>(t.seed));
  a.number("clip-grad", t.max_norm);
  a.flag_if(t.param_dtype() == DType::BF16, "bf16");
  a.flag_if(t.param_dtype() == DType::F16, "fp16");
  a.flag_if(t.param_dtype() == DType::BF16 && t.reduce_dtype() == DType::F32,
            "accumulate-allreduce-grads-in-fp32");
  leave_unsaid(h.unsaid, t.dtype != DType::F32, "training.dtype: its optimizer keeps float32");

  a.set("optimizer", s.optimizer.name == OptimizerKind::Sgd ? "sgd" : "adam");
  a.number("lr", s.optimizer.lr);
  a.number("min-lr", s.optimizer.lr * s.lr_scheduler.min_lr_factor);
  a.number("weight-decay", s.optimizer.weight_decay);
  if (s.optimizer.name == OptimizerKind::Sgd) {
    a.number("sgd-momentum", s.optimizer.momentum);
  } else {
    a.number("adam-beta1", s.optimizer.beta1);
    a.number("adam-beta2", s.optimizer.beta2);
    a.number("adam-eps", s.optimizer.eps);
  }
  const LrSchedulerSpec& schedule = s.lr_scheduler;
  a.set("lr-warmup-iters", schedule.warmup_steps);
  if (schedule.decay_ratio == 0) {
    a.set("lr-decay-style", "constant");
  } else {
    a.set("lr-decay-style", schedule.decay_type == DecayType::Cosine ? "cosine" : "linear");
    a.set("lr-decay-iters", t.steps);
    leave_unsaid(h.unsaid, schedule.decay_ratio < 1,
                 "[lr_scheduler]: it decays from the warm-up on, linearly or as a cosine; a part "
                 "that stays constant is --lr-decay-style WSD");
  }

  const ActivationCheckpointSpec& recompute = s.activation_checkpoint;
  if (recompute.mode == ActivationCheckpoint::Full) {
    a.set("recompute-granularity", "full");
    a.set("recompute-method", "uniform");
    a.set("recompute-num-layers", 1);
  } else if (recompute.mode == ActivationCheckpoint::Selective) {
    const std::string& option = recompute.selective_ac_option;
    a.set("recompute-granularity", "selective");
    a.set("recompute-modules", option == "attention"    ? "core_attn"
                               : option == "norm"       ? "layernorm"
                               : option == "activation" ? "mlp"
                                                        : "layernorm mlp");
    leave_unsaid(h.unsaid, option != "attention" && option != "norm",
                 "activation_checkpoint.selective_ac_option = \"" + option +
                     "\": of feed-forward networks it recomputes all or nothing, and not every "
                     "k-th block");
  }
  if (s.checkpoint.interval > 0) {
    a.set("save-interval", s.checkpoint.interval);
    a.set("save", s.checkpoint.folder);
  }
  leave_unsaid(h.unsaid, !t.dataset.empty(),
               "training.dataset: it reads .bin and .idx of its own tools (--data-path)");
  h.text = a.text();
  h.launch = torchrun(s) + " pretrain_gpt.py $(< FILE)";
}

}  // namespace lockstep
