#include "core/handover/flavors.hpp"
#include "core/handover/words.hpp"
#include "core/spec/foreign_names.hpp"

namespace lockstep {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string dtype_name(DType type) { return std::string(to_string(type)); }

/// A configuration in TOML, whose sections stand in the order in which they are given.
class Config {
 public:
  explicit Config(const std::vector<std::string>& sections) {
    for (const std::string& name : sections) sections_.emplace_back(name, "");
  }
  /// Says a key of ours in torchtitan's word, which it must have.
  void set(std::string_view key, const std::string& value) {
    own(name_for(Trainer::Torchtitan, key), value);
  }
  void set(std::string_view key, std::int64_t value) { set(key, std::to_string(value)); }
  void set(std::string_view key, double value) {
    const std::string text = number_text(value);
    set(key, text.find_first_of(".en") == std::string::npos ? text + ".0" : text);
  }
  /// Says a key that only torchtitan has, "model.flavor".
  void own(std::string_view path, const std::string& value) {
    const std::size_t dot = path.find('.');
    for (auto& [name, lines] : sections_) {
      if (name == path.substr(0, dot)) {
        lines += std::string(path.substr(dot + 1)) + " = " + value + "\n";
      }
    }
  }
  std::string text() const {
    std::string text;
    for (const auto& [name, lines] : sections_) {
      if (lines.empty()) continue;
      text += (text.empty() ? "[" : "\n[") + name + "]\n" + lines;
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> sections_;
};

/// Schedules as torch.distributed.pipelining names them; empty for those that it lacks.
std::string schedule_name(PipelineSchedule schedule) {
  const ScheduleRules& rules = rules_of(schedule);
  return rules.in_pytorch ? std::string(rules.name) : "";
}

void say_model(const Scenario& s, Config& config, std::vector<std::string>& unsaid) {
  const TrainingSpec& t = s.training;
  leave_unsaid(unsaid, t.residual_dropout > 0 || t.embedding_dropout > 0 || t.attention_dropout > 0,
               "training.residual_dropout, training.embedding_dropout, training.attention_dropout: "
               "its models have no dropout");
  const ModelSpec& m = s.model;
  const BlockParts parts = m.parts();
  const bool is_llama = parts.norm == NormKind::RmsNorm && parts.activation == Activation::Swiglu &&
                        m.is_rotary() && m.rotary_fraction == 1 && !parts.biases;
  const Flavor* flavor = nullptr;
  for (const Flavor& f : kFlavors) {
    if (is_llama && m.experts == 0 && m.layers == f.layers && m.hidden == f.hidden &&
        m.heads == f.heads && m.kv_heads == f.kv_heads && m.head_dim == f.head_dim &&
        m.ffn_hidden == f.ffn_hidden && m.vocab == f.vocab && m.rope_theta == f.rope_theta &&
        m.qk_norm == f.qk_norm && m.tied_embeddings == f.tied && !m.qkv_bias) {
      flavor = &f;
    }
  }
  config.own("model.name", quoted(flavor != nullptr ? flavor->family : "llama3"));
  config.own("model.flavor", quoted(flavor != nullptr ? flavor->name : "debugmodel"));
  if (flavor == nullptr) {
    unsaid.push_back("[model]: no flavor of llama3 has " + std::to_string(m.layers) +
                     " blocks of width " + std::to_string(m.hidden) + " with " +
                     std::to_string(m.heads) +
                     " heads, and its vocabulary: register one, and name it in model.flavor");
  }
}

/// The modules of each stage, of so many blocks.
std::string modules_of_stages(const std::vector<int>& blocks) {
  std::string text;
  int block = 0;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    std::string modules = stage == 0 ? quoted("tok_embeddings") : "";
    const auto add = [&](const std::string& name) {
      modules += (modules.empty() ? "" : ", ") + quoted(name);
    };
    for (int i = 0; i < blocks[stage]; ++i) add("layers." + std::to_string(block++));
    if (stage + 1 == blocks.size()) add("norm"), add("output");
    text += (stage == 0 ? "[" : ", [") + modules + "]";
  }
  return "[" + text + "]";
}

void say_parallelism(const Scenario& s, Config& config, std::vector<std::string>& unsaid) {
  const StrategySpec& p = s.strategy;
  const bool shards = p.zero_stage >= 2 && p.data_parallel_shard_degree > 1;
  // Replicas that train apart are jobs of their own.
  const int replicas = shards ? p.synchronous_replicas() : p.synchronous_ranks();
  config.set("parallelism.data_parallel_replicate_degree", std::int64_t{replicas});
  config.set("parallelism.data_parallel_shard_degree",
             std::int64_t{shards ? p.data_parallel_shard_degree : 1});
  if (shards) {
    const bool never =
        p.zero_stage == 2 || p.fsdp_reshard_after_forward == ReshardAfterForward::Never;
    const bool always = !never && p.fsdp_reshard_after_forward == ReshardAfterForward::Always;
    config.set("parallelism.fsdp_reshard_after_forward", quoted(never    ? "never"
                                                                : always ? "always"
                                                                         : "default"));
  }
  leave_unsaid(unsaid, p.zero_stage == 1 && p.data_parallel_shard_degree > 1,
               "parallelism.zero_stage = 1: its optimizer states are sharded with the parameters "
               "or not at all; these are replicas");
  leave_unsaid(unsaid, p.reshards_to_fewer(),
               "parallelism.fsdp_reshard_degree: it reshards to all ranks or to none");
  leave_unsaid(unsaid, p.fsdp_persistence_threshold > 0 || p.fsdp_min_num_params > 0,
               "parallelism.fsdp_persistence_threshold, fsdp_min_num_params: its units are blocks");
  config.set("parallelism.tensor_parallel_degree", std::int64_t{p.tensor_parallel_degree});
  leave_unsaid(unsaid, p.tensor_parallel_degree > 1 && !p.enable_sequence_parallel,
               "parallelism.enable_sequence_parallel = false: it always divides norms by tokens");
  const int chunks = p.tensor_parallel_chunks;
  if (chunks > 1) config.set("parallelism.tensor_parallel_chunks", std::string("true"));
  leave_unsaid(unsaid, chunks > 1 && chunks != p.tensor_parallel_degree,
               "parallelism.tensor_parallel_chunks = " + std::to_string(chunks) +
                   ": it has as many parts as ranks");
  config.set("parallelism.context_parallel_degree", std::int64_t{p.context_parallel_degree});
  if (p.context_parallel_degree > 1) {
    const bool ring = p.context_parallel_method == ContextParallelMethod::Ring;
    config.set("parallelism.context_parallel_method", quoted(ring ? "alltoall" : "allgather"));
    leave_unsaid(unsaid, p.context_parallel_method == ContextParallelMethod::Ulysses,
                 "parallelism.context_parallel_method = \"ulysses\": it gathers keys and values");
    leave_unsaid(unsaid, p.key_ranks() > 1 && p.head_ranks() > 1,
                 "parallelism.context_parallel_ulysses_degree: it exchanges no heads");
  }
  config.set("parallelism.pipeline_parallel_degree", std::int64_t{p.pipeline_parallel_degree});
  if (p.pipeline_parallel_degree > 1) {
    const std::string schedule = schedule_name(p.pipeline_parallel_schedule);
    if (!p.pipeline_parallel_schedule_csv.empty()) {
      config.set("parallelism.pipeline_parallel_schedule", quoted("PipelineScheduleMulti"));
      config.set("parallelism.pipeline_parallel_schedule_csv",
                 quoted(p.pipeline_parallel_schedule_csv));
    } else if (!schedule.empty()) {
      config.set("parallelism.pipeline_parallel_schedule", quoted(schedule));
    } else {
      config.set("parallelism.pipeline_parallel_schedule", quoted("PipelineScheduleMulti"));
      config.set("parallelism.pipeline_parallel_schedule_csv", quoted("schedule.csv"));
      unsaid.push_back("PyTorch has no schedule " +
                       std::string(rules_of(p.pipeline_parallel_schedule).name) +
                       ": write schedule.csv with `lockstep show schedule SCENARIO --csv`");
    }
    config.own("parallelism.pipeline_parallel_microbatch_size",
               std::to_string(s.microbatch_size()));
    const std::int64_t stages = p.num_stages();
    if (!p.pipeline_parallel_layers_per_stage.empty()) {
      config.set("parallelism.pipeline_parallel_layers_per_stage",
                 modules_of_stages(p.pipeline_parallel_layers_per_stage));
    } else if (s.model.layers % stages == 0) {
      config.own("parallelism.pipeline_parallel_layers_per_stage",
                 std::to_string(s.model.layers / stages));
      config.own("parallelism.pipeline_parallel_first_stage_less_layers", "0");
      config.own("parallelism.pipeline_parallel_last_stage_less_layers", "0");
    } else {
      unsaid.push_back(
          "the blocks of each stage, which are balanced by FLOPs: say them in "
          "parallelism.pipeline_parallel_layers_per_stage");
    }
  }
  config.set("parallelism.expert_parallel_degree", std::int64_t{p.expert_parallel_degree});
}

/// Replicas that train apart are groups of torchft, each a job of its own.
void say_replicas_apart(const Scenario& s, Config& config, std::vector<std::string>& unsaid) {
  const LocalSgdSpec& l = s.strategy.local_sgd;
  if (!s.strategy.trains_apart()) return;
  const bool diloco = l.method == SemiSyncMethod::DiLoCo;
  config.own("job.custom_config_module", quoted("torchtitan.components.ft.config"));
  config.own("fault_tolerance.enable", "true");
  config.own("fault_tolerance.group_size",
             std::to_string(s.strategy.data_parallel_replicate_degree));
  config.set("local_sgd.method", quoted(diloco ? "diloco" : "local_sgd"));
  config.set("local_sgd.sync_steps", std::int64_t{l.sync_steps});
  const LocalSgdSpec its;  // torchtitan writes the outer optimizer out
  leave_unsaid(
      unsaid,
      diloco && (l.outer_lr != its.outer_lr || l.outer_momentum != its.outer_momentum ||
                 l.outer_nesterov != its.outer_nesterov),
      "local_sgd.outer_lr, outer_momentum, outer_nesterov: its outer optimizer is SGD with "
      "0.7, 0.9 and Nesterov momentum, in its code");
  unsaid.push_back(
      "the " + std::to_string(s.strategy.data_parallel_replicate_degree) +
      " replicas that train apart: start a torchft_lighthouse, and the launch line once "
      "for each, with --fault_tolerance.replica_id 0, 1, …");
}

}  // namespace

void hand_to_torchtitan(const Scenario& s, Handover& h) {
  const TrainingSpec& t = s.training;

  std::vector<std::string> sections = {
      "job",      "model",       "optimizer",      "lr_scheduler",
      "training", "parallelism", "checkpoint",     "activation_checkpoint",
      "compile",  "debug",       "fault_tolerance"};
  // torchao's MXFP8 has E4M3 alone, and scales of tensors have E5M2 for gradients.
  const bool mx = t.fp8 == Fp8Format::E4M3 && t.fp8_recipe == Fp8Scaling::Mxfp8;
  const bool tensors = t.fp8 == Fp8Format::Hybrid && t.fp8_recipe == Fp8Scaling::Tensorwise;
  if (mx) sections.push_back("quantize");
  Config config(sections);
  say_model(s, config, h.unsaid);
  if (mx) {
    config.set("training.fp8", "[" + quoted("quantize.linear.mx") + "]");
    config.set("training.fp8_recipe", quoted("mxfp8_cublas"));
  }
  if (tensors) config.set("training.fp8", "[" + quoted("quantize.linear.float8") + "]");
  leave_unsaid(h.unsaid, t.fp8 != Fp8Format::None && !mx && !tensors,
               "training.fp8: its products in 8 bits are tensorwise and hybrid, or mxfp8 of E4M3 "
               "alone");
  leave_unsaid(
      h.unsaid, (mx || tensors) && t.num_layers_at_start_in_bf16 + t.num_layers_at_end_in_bf16 > 0,
      "training.num_layers_at_start_in_bf16, num_layers_at_end_in_bf16: name their modules "
      "in filter_fqns of the converter");
  leave_unsaid(h.unsaid, mx && t.fp8_block_size > 0,
               "training.fp8_block_size: its blocks have 32 elements");

  const OptimizerRow& optimizer =
      info(info(s.optimizer.name).in_torchtitan ? s.optimizer.name : OptimizerKind::AdamW);
  config.set("optimizer.name", quoted(std::string(optimizer.name)));
  leave_unsaid(h.unsaid, optimizer.kind != s.optimizer.name,
               "optimizer.name: it has AdamW and Adam");
  leave_unsaid(h.unsaid, s.optimizer.state_dtype == StateDType::BF16,
               "optimizer.state_dtype: its moments are of the type of its parameters");
  config.set("optimizer.lr", s.optimizer.lr);
  config.set("optimizer.beta1", s.optimizer.beta1);
  config.set("optimizer.beta2", s.optimizer.beta2);
  config.set("optimizer.eps", s.optimizer.eps);
  config.set("optimizer.weight_decay", s.optimizer.weight_decay);

  config.set("lr_scheduler.warmup_steps", std::int64_t{s.lr_scheduler.warmup_steps});
  config.set("lr_scheduler.decay_ratio", s.lr_scheduler.decay_ratio);
  config.set("lr_scheduler.decay_type",
             quoted(s.lr_scheduler.decay_type == DecayType::Cosine ? "cosine" : "linear"));
  config.set("lr_scheduler.min_lr_factor", s.lr_scheduler.min_lr_factor);

  config.set("training.local_batch_size", std::int64_t{t.local_batch_size});
  config.set("training.global_batch_size", std::int64_t{s.global_batch_size()});
  config.set("training.seq_len", std::int64_t{t.seq_len});
  config.set("training.max_norm", t.max_norm);
  config.set("training.steps", std::int64_t{t.steps});
  config.set("training.seed", static_cast<std::int64_t>(t.seed));
  config.set("training.mixed_precision_param",
             quoted(t.param_dtype() == DType::BF16 ? "bfloat16" : "float32"));
  config.set("training.mixed_precision_reduce", quoted("float32"));
  leave_unsaid(h.unsaid, t.param_dtype() == DType::F16 || t.param_dtype() == DType::F64,
               "training.mixed_precision_param: it computes in bfloat16 or float32, not in " +
                   dtype_name(t.param_dtype()));
  leave_unsaid(h.unsaid, t.dtype != DType::F32,
               "training.dtype: its optimizer's parameters are float32");
  leave_unsaid(h.unsaid, t.reduce_dtype() != DType::F32,
               "training.mixed_precision_reduce: it sums gradients up in float32");
  config.set("parallelism.offload",
             std::string(s.strategy.offload == Offload::Parameters ? "true" : "false"));
  leave_unsaid(h.unsaid, s.strategy.offload == Offload::Optimizer,
               "parallelism.offload = \"optimizer\": it offloads parameters as well, or nothing");
  leave_unsaid(h.unsaid, s.strategy.offloads_to_drive(),
               "parallelism.offload_optimizer_device and offload_param_device = \"nvme\": it "
               "offloads to host memory");
  leave_unsaid(h.unsaid, t.reset_attention_mask,
               "training.reset_attention_mask: choose a flavor of the model with attn_mask_type = "
               "\"block_causal\"");
  leave_unsaid(h.unsaid, t.eod_mask_loss,
               "training.eod_mask_loss: its loss takes every token as a target");
  leave_unsaid(h.unsaid, !t.dataset.empty(),
               "training.dataset: name one of its datasets, or register yours");

  const std::string software = software_of(s.cluster);
  if (!software.empty()) {  // of a card
    config.own("compile.enable", std::string(software == "fsdp-eager" ? "false" : "true"));
  }
  config.own("checkpoint.enable", std::string(s.checkpoint.interval > 0 ? "true" : "false"));
  if (s.checkpoint.interval > 0)
    config.set("checkpoint.interval", std::int64_t{s.checkpoint.interval});
  config.set("checkpoint.folder", quoted(s.checkpoint.folder));
  config.set("checkpoint.keep_latest_k", std::int64_t{s.checkpoint.keep_latest_k});

  const ActivationCheckpointSpec& a = s.activation_checkpoint;
  const bool selective = a.mode == ActivationCheckpoint::Selective;
  config.set("activation_checkpoint.mode", quoted(a.mode == ActivationCheckpoint::Full ? "full"
                                                  : selective                          ? "selective"
                                                                                       : "none"));
  if (selective) {
    const bool named = !a.policies().empty();
    config.set("activation_checkpoint.selective_ac_option",
               quoted(named ? "op" : a.selective_ac_option));
    leave_unsaid(h.unsaid, named && a.selective_ac_option != "torchtitan",
                 "activation_checkpoint.selective_ac_option = \"" + a.selective_ac_option +
                     "\": it has numbers, and \"op\", which is \"torchtitan\" here");
  }
  leave_unsaid(h.unsaid, !a.recomputed_layers_per_stage.empty(),
               "activation_checkpoint.recomputed_layers_per_stage: all its stages recompute alike");

  say_parallelism(s, config, h.unsaid);
  say_replicas_apart(s, config, h.unsaid);
  h.text = "# torchtitan 0.2.1 or 0.2.2 (later ones read no TOML), from the scenario \"" + s.name +
           "\"\n" + config.text();
  Scenario job = s;
  if (s.strategy.trains_apart()) job.strategy.data_parallel_replicate_degree = 1;
  h.launch = torchrun(job) + " -m torchtitan.train --job.config_file FILE";
}

}  // namespace lockstep
