#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/handover/words.hpp"
#include "core/spec/foreign_names.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// Says a key of ours in DeepSpeed's word, which it must have.
void set(Json& config, std::string_view key, Json value) {
  Json* at = &config;
  std::string_view path = name_for(Trainer::DeepSpeed, key);
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  (*at)[std::string(path)] = std::move(value);
}

void say_optimizer(const OptimizerSpec& o, Json& config, std::vector<std::string>& unsaid) {
  const OptimizerRow& row = info(o.name);
  set(config, "optimizer.name", row.name);
  set(config, "optimizer.lr", o.lr);
  if (row.reads("beta1")) set(config, "optimizer.beta1", {o.beta1, o.beta2});
  if (row.reads("eps")) set(config, "optimizer.eps", o.eps);
  if (o.is_adafactor()) {  // torch.optim.Adafactor, which takes no other relative step
    set(config, "optimizer.eps", {o.eps_square, o.eps_scale});
    set(config, "optimizer.decay_rate", o.decay_rate);
    set(config, "optimizer.clip_threshold", o.clip_threshold);
    config["zero_allow_untested_optimizer"] = true;
    leave_unsaid(unsaid, !o.relative_step || !o.scale_parameter || o.first_moment_decay > 0,
                 "optimizer.relative_step, scale_parameter and first_moment_decay: torch.optim's "
                 "Adafactor has relative steps in proportion to the parameters, and no first "
                 "moment");
    unsaid.push_back(
        "optimizer.name: ZeRO gives torch.optim's Adafactor flat shards, which are vectors to it: "
        "it keeps a moment of every element");
  }
  if (row.reads("momentum")) set(config, "optimizer.momentum", o.momentum);
  if (o.muon_lr > 0) {
    set(config, "optimizer.muon_lr", o.muon_lr);
    config["optimizer"]["params"]["adam_lr"] = o.lr;
  }
  leave_unsaid(unsaid,
               o.is_muon() && (!o.nesterov || o.ns_steps != OptimizerSpec{}.ns_steps ||
                               o.adjust_lr_fn != AdjustLr::Original),
               "optimizer.nesterov, ns_steps and adjust_lr_fn: its Muon has Nesterov's momentum, "
               "five steps and the factor \"original\"");
  set(config, "optimizer.weight_decay", o.weight_decay);
  // Its Adam is AdamW unless it is told otherwise.
  if (o.name == OptimizerKind::Adam) config["optimizer"]["params"]["adam_w_mode"] = false;
}

Json schedule_of(const Scenario& s, std::vector<std::string>& unsaid) {
  const LrSchedulerSpec& l = s.lr_scheduler;
  if (l.warmup_steps == 0 && l.decay_ratio == 0) return {};
  Json params = {{"warmup_min_lr", 0.0},
                 {"warmup_max_lr", s.optimizer.lr},
                 {"warmup_num_steps", l.warmup_steps},
                 {"warmup_type", "linear"}};
  if (l.decay_ratio == 0) return {{"type", "WarmupLR"}, {"params", params}};
  params["total_num_steps"] = s.training.steps;
  if (l.decay_type == DecayType::Cosine) {
    unsaid.push_back(
        "lr_scheduler: DeepSpeed's WarmupCosineLR counts in ratios of the optimizer's "
        "learning rate");
    return {{"type", "WarmupCosineLR"},
            {"params",
             {{"total_num_steps", s.training.steps},
              {"warmup_num_steps", l.warmup_steps},
              {"warmup_type", "linear"},  // its default is logarithmic
              {"cos_min_ratio", l.min_lr_factor}}}};
  }
  leave_unsaid(unsaid, l.decay_ratio < 1 || l.min_lr_factor > 0,
               "lr_scheduler: WarmupDecayLR decays linearly to zero from the warm-up on");
  return {{"type", "WarmupDecayLR"}, {"params", params}};
}

Json device_of(OffloadDevice device, const std::string& folder) {
  if (device == OffloadDevice::Cpu) return {{"device", "cpu"}, {"pin_memory", true}};
  return {{"device", "nvme"},
          {"nvme_path", folder.empty() ? "/local_nvme" : folder},
          {"pin_memory", true}};
}

void say_offload(const Scenario& s, int stage, Json& config, std::vector<std::string>& unsaid) {
  const StrategySpec& p = s.strategy;
  const std::string folder = s.nvme_path();
  if (p.offload != Offload::None) {
    set(config, "parallelism.offload", device_of(p.offload_optimizer_device, folder));
  }
  if (p.offload == Offload::Parameters) {
    config["zero_optimization"]["offload_param"] = device_of(p.offload_param_device, folder);
  }
  if (!p.offloads_to_drive()) return;
  leave_unsaid(unsaid, stage < 3,
               "parallelism.offload_optimizer_device = \"nvme\": it offloads to drives in stage 3 "
               "only");
  if (p.offload_optimizer_device != OffloadDevice::Nvme) return;
  const int units = std::max(p.offload_buffer_count, p.least_offload_buffers());
  set(config, "parallelism.offload_buffer_count", units * info(s.optimizer.name).swapped_tensors);
  set(config, "parallelism.offload_pipeline_read", p.offload_pipeline_read);
  set(config, "parallelism.offload_pipeline_write", p.offload_pipeline_write);
}

void say_zero(const Scenario& s, Json& config, std::vector<std::string>& unsaid) {
  const StrategySpec& p = s.strategy;
  const bool shards = p.data_parallel_shard_degree > 1;
  const int stage = shards ? p.zero_stage : 0;
  set(config, "parallelism.zero_stage", stage);
  set(config, "parallelism.overlap_grad_reduce", p.overlap_grad_reduce);
  // DeepSpeed counts buckets in elements.
  set(config, "parallelism.bucket_cap_mb", p.bucket_cap.v / size_of(s.training.reduce_dtype()));
  if (stage == 3) {
    set(config, "parallelism.fsdp_persistence_threshold", p.fsdp_persistence_threshold);
    if (p.reshards_to_fewer()) {
      set(config, "parallelism.fsdp_reshard_degree", p.fsdp_reshard_degree);
    }
    if (p.zero_quantized_weights) set(config, "parallelism.zero_quantized_weights", true);
    if (p.zero_quantized_gradients) set(config, "parallelism.zero_quantized_gradients", true);
    leave_unsaid(
        unsaid, p.sends_codes(),
        "parallelism.zero_quantized_block_size: it chooses blocks by the size of a tensor");
    leave_unsaid(
        unsaid, p.zero_quantized_gradients && p.zero_quantized_gradients_bits != 4,
        "parallelism.zero_quantized_gradients_bits: its gradients are exchanged in 4 bits");
  } else {
    leave_unsaid(unsaid, p.zero_quantized_gradients,
                 "parallelism.zero_quantized_gradients: it exchanges codes in stage 3 only");
  }
  say_offload(s, stage, config, unsaid);
  if (shards && stage > 0 && p.data_parallel_replicate_degree > 1) {
    set(config, "parallelism.data_parallel_shard_degree", p.data_parallel_shard_degree);
    leave_unsaid(unsaid, stage < 3,
                 "parallelism.data_parallel_replicate_degree: it shards within groups (MiCS) in "
                 "stage 3 only");
  }
}

}  // namespace

void hand_to_deepspeed(const Scenario& s, Handover& h) {
  const StrategySpec& p = s.strategy;
  const TrainingSpec& t = s.training;
  Json config;
  set(config, "training.global_batch_size", s.global_batch_size());
  set(config, "training.local_batch_size", s.microbatch_size());
  config["gradient_accumulation_steps"] = s.num_microbatches();
  set(config, "training.max_norm", t.max_norm);
  if (t.param_dtype() == DType::BF16) set(config, "training.mixed_precision_param", true);
  if (t.param_dtype() == DType::F16) {
    config["fp16"] = {{"enabled", true}, {"loss_scale", 0}};  // 0: dynamic
  }
  if (t.reduce_dtype() != t.param_dtype()) {
    set(config, "training.mixed_precision_reduce",
        t.reduce_dtype() == DType::F32 ? "fp32" : "bf16");
  }
  leave_unsaid(
      h.unsaid, t.fp8 != Fp8Format::None,
      "training.fp8: its script's model multiplies in 8 bits by Transformer Engine's layers");
  say_zero(s, config, h.unsaid);
  say_optimizer(s.optimizer, config, h.unsaid);
  if (Json schedule = schedule_of(s, h.unsaid); !schedule.is_null()) config["scheduler"] = schedule;
  leave_unsaid(h.unsaid, s.optimizer.state_dtype == StateDType::BF16,
               "optimizer.state_dtype: its moments are of the type of its masters");
  leave_unsaid(h.unsaid, s.activation_checkpoint.mode != ActivationCheckpoint::None,
               "[activation_checkpoint]: the model's code says what it recomputes "
               "(model.gradient_checkpointing_enable() in transformers)");
  const auto degree = [&](int value, const char* key, const char* where) {
    leave_unsaid(h.unsaid, value > 1,
                 std::string("parallelism.") + key + " = " + std::to_string(value) + ": " + where);
  };
  degree(p.tensor_parallel_degree, "tensor_parallel_degree",
         "Megatron-DeepSpeed takes --tensor-model-parallel-size");
  degree(p.pipeline_parallel_degree, "pipeline_parallel_degree",
         "PipelineModule(num_stages=...), or Megatron-DeepSpeed's --pipeline-model-parallel-size; "
         "its schedule is 1F1B");
  degree(p.context_parallel_degree, "context_parallel_degree",
         "Megatron-DeepSpeed takes --ds-sequence-parallel-size");
  degree(p.expert_parallel_degree, "expert_parallel_degree",
         "deepspeed.moe.layer.MoE(ep_size=...)");
  leave_unsaid(
      h.unsaid, true,
      "[model], training.seq_len, training.steps, training.dataset: they are the script's");
  h.text = config.dump(2) + "\n";
  const std::string ranks = torchrun(s);  // "torchrun --nnodes N --nproc-per-node M"
  h.launch = ranks + " train.py --deepspeed --deepspeed_config FILE";
}

}  // namespace lockstep
