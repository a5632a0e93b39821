#include "core/spec/validate/validate.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/nearest.hpp"
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kMostRanks = 1 << 24;
constexpr std::int64_t kMostSequences = 1 << 30;
// Limits of what is lowered: the ops of a rank grow with the product of layers and microbatches.
// They are numbered by 32 bits, and 10^7 of them take a gigabyte.
constexpr std::int64_t kMostPasses = std::int64_t{1} << 22;
// Of costs and latencies, in seconds: a day. A step of a virtual clock has at most 106 days.
constexpr double kLongestTime = 86400;

void validate_model(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (m.architecture == Architecture::Synthetic) {
    if (!s.costs) faults.add("model.preset", "the synthetic model needs a [costs] section");
    return;
  }
  if (s.costs) {
    faults.add("costs",
               "[costs] gives times to the synthetic model only; model is '" + m.name + "'");
  }
  validate_patches(s, faults);
  if (m.has_batch_norm()) return validate_resnet(s, faults);
  validate_transformer(s, faults);
}

void validate_costs(const Scenario& s, Faults& faults) {
  if (!s.costs) return;
  const auto check = [&](const char* key, const std::vector<double>& list) {
    const std::size_t stages = static_cast<std::size_t>(s.strategy.num_stages());
    if (list.size() != 1 && list.size() != stages) {
      faults.add(std::string("costs.") + key, std::string(key) + " has " +
                                                  std::to_string(list.size()) + " values for " +
                                                  std::to_string(stages) + " virtual stages");
    }
    for (double seconds : list) {
      faults.require(seconds >= 0 && seconds <= kLongestTime, std::string("costs.") + key,
                     "must be in [0, 86400], seconds of a day");
    }
  };
  check("forward", s.costs->forward);
  check("backward_input", s.costs->backward_input);
  check("backward_weight", s.costs->backward_weight);
}

void validate_batch(const Scenario& s, Faults& faults) {
  const TrainingSpec& t = s.training;
  const std::int64_t per_pass =
      std::int64_t{t.local_batch_size} * s.strategy.data_parallel_degree();
  if (per_pass > kMostSequences) {
    faults.add("training.local_batch_size", "local_batch_size × data-parallel degree exceeds " +
                                                std::to_string(kMostSequences) + " sequences");
    return;
  }
  if (s.global_batch_size() % per_pass != 0) {
    faults.add("training.global_batch_size",
               "global_batch_size=" + std::to_string(s.global_batch_size()) +
                   " is not a multiple of local_batch_size × data-parallel degree = " +
                   std::to_string(per_pass) + ": ranks would get unequal batches");
  }
  if (s.model.architecture != Architecture::Synthetic &&
      t.local_batch_size % s.strategy.pipeline_parallel_microbatches != 0) {
    faults.add("parallelism.pipeline_parallel_microbatches",
               "pipeline_parallel_microbatches=" +
                   std::to_string(s.strategy.pipeline_parallel_microbatches) +
                   " does not divide local_batch_size=" + std::to_string(t.local_batch_size));
  }
  const std::int64_t microbatches =
      std::int64_t{s.accumulation_steps()} * s.strategy.pipeline_parallel_microbatches;
  const std::int64_t layers = std::max<std::int64_t>(1, s.model.layers);
  if (microbatches > kMostMicrobatches || microbatches * layers > kMostPasses) {
    faults.add("parallelism.pipeline_parallel_microbatches",
               std::to_string(microbatches) + " microbatches of " + std::to_string(layers) +
                   " layers: a step has at most " + std::to_string(kMostMicrobatches) +
                   " microbatches, and microbatches x layers is at most " +
                   std::to_string(kMostPasses));
  }
}

void validate_loss_scale(const Scenario& s, Faults& faults) {
  const TrainingSpec& t = s.training;
  if (!t.scales_loss()) return;
  const char* const key = t.param_dtype() == DType::F16 ? "training.mixed_precision_param"
                                                        : "training.mixed_precision_reduce";
  if (t.dtype == DType::BF16) {
    faults.refuse(key,
                  "float16 rounds parameters that the optimizer keeps in dtype=bfloat16, which has "
                  "fewer digits: give dtype=float32");
  }
  if (s.microbatches_per_update() > 0 && s.updates_per_step() > 1) {
    faults.refuse(
        key,
        "a step of PipeDream updates the weights several times, each time without waiting "
        "for all gradients, so no step can be skipped because one of them overflows: give "
        "bfloat16");
  }
  const auto [name, fault] = fault_of(s.loss_scale);
  if (!fault.empty()) faults.add("loss_scale." + name, fault);
}

void validate_types(const Scenario& s, Faults& faults) {
  const TrainingSpec& t = s.training;
  const auto check = [&](const char* key, DType type) {
    const std::string name = std::string("training.") + key;
    if ((t.dtype == DType::F64) != (type == DType::F64)) {
      faults.add(name, std::string(key) + "=" + std::string(to_string(type)) +
                           " does not go with dtype=float64, which is there to compare with: "
                           "everything is float64 then");
    }
  };
  if (t.dtype == DType::F16) {
    faults.refuse(
        "training.dtype",
        "dtype=float16 would keep the optimizer's states in float16, in which small updates "
        "vanish: give mixed_precision_param=float16, with dtype=float32");
    return;
  }
  check("mixed_precision_param", t.param_dtype());
  check("mixed_precision_reduce", t.reduce_dtype());
  if (s.model.has_batch_norm()) {
    if (t.buffer_dtype() == DType::F16) {
      faults.refuse("training.mixed_precision_buffer",
                    "mixed_precision_buffer=float16 lacks the range that variances need: give "
                    "bfloat16, which has that of float32");
    } else {
      check("mixed_precision_buffer", t.buffer_dtype());
    }
  }
  if (t.dtype == DType::BF16 && t.param_dtype() == DType::F32) {
    faults.refuse("training.mixed_precision_param",
                  "mixed_precision_param=float32 is wider than dtype=bfloat16, in which the "
                  "optimizer keeps the parameters: leave one of the two out");
  }
  validate_loss_scale(s, faults);
  if (!t.stochastic_rounding) return;
  if (t.dtype != DType::BF16) {
    faults.add("training.stochastic_rounding",
               "stochastic_rounding is of parameters that the optimizer keeps in bfloat16: with "
               "dtype=" +
                   std::string(to_string(t.dtype)) + " it rounds none");
  } else if (s.optimizer.name != OptimizerKind::AdamW) {
    faults.refuse("training.stochastic_rounding",
                  "stochastic_rounding is built for AdamW only: leave it out");
  }
}

void validate_activation_checkpoint(const Scenario& s, Faults& faults) {
  const ActivationCheckpointSpec& spec = s.activation_checkpoint;
  if (spec.mode != ActivationCheckpoint::None && s.model.architecture == Architecture::Synthetic) {
    faults.add("activation_checkpoint.mode",
               "the synthetic model has no activations: add the time of a second forward pass to "
               "costs.backward_input");
  }
  if (spec.mode != ActivationCheckpoint::None && s.model.has_batch_norm()) {
    faults.refuse(
        "activation_checkpoint.mode",
        "recomputation is built for transformer blocks, because a second pass of a batch norm "
        "would count in its running statistics twice: give mode = \"none\"");
  }
  const std::vector<int>& counts = spec.recomputed_layers_per_stage;
  const std::string counts_key = "activation_checkpoint.recomputed_layers_per_stage";
  if (!counts.empty()) {
    const int stages = s.strategy.num_stages();
    if (spec.mode == ActivationCheckpoint::None) {
      faults.add(counts_key,
                 "nothing is recomputed: set activation_checkpoint.mode to full or "
                 "selective, or leave this list out");
    } else if (counts.size() != static_cast<std::size_t>(stages)) {
      faults.add(counts_key, "recomputed_layers_per_stage has " + std::to_string(counts.size()) +
                                 " values for " + std::to_string(stages) + " stages");
    } else if (std::any_of(counts.begin(), counts.end(),
                           [&](int n) { return n < 0 || n > s.model.layers; })) {
      faults.add(counts_key, "a stage recomputes between 0 and all " +
                                 std::to_string(s.model.layers) + " blocks of the model");
    }
  }
  const std::string option_key = "activation_checkpoint.selective_ac_option";
  if (spec.of_block(0)) {
    const std::vector<std::string> given = spec.policies();
    if (std::count(given.begin(), given.end(), "mla_up_proj") > 0 && !s.model.is_latent()) {
      faults.add(option_key,
                 "selective_ac_option 'mla_up_proj' is of latent attention, which this model does "
                 "not have: set model.kv_lora_rank, or leave it out");
    }
    return;
  }
  std::vector<std::string> names;
  std::string list;
  for (const RecomputePolicy& policy : kRecomputePolicies) {
    names.emplace_back(policy.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::vector<std::string> given = spec.policies();
  const auto wrong = std::find_if(given.begin(), given.end(), [](const std::string& name) {
    return find_recompute_policy(name) == nullptr;
  });
  const std::string close = nearest(*wrong, names);
  faults.add(option_key, "selective_ac_option '" + spec.selective_ac_option +
                             "' is neither a number of blocks, of which the last is recomputed, "
                             "nor one or several, with commas, of " +
                             list + (close.empty() ? "" : "; did you mean '" + close + "'?"));
}

void validate_loss_chunks(const Scenario& s, Faults& faults) {
  const std::int64_t chunks = s.training.loss_chunks;
  if (chunks == 1 || s.model.architecture == Architecture::Synthetic) return;
  if (s.strategy.tensor_parallel_degree > 1 || s.strategy.vocabulary_parallel_pipeline) {
    faults.refuse("training.loss_chunks",
                  "loss_chunks is built for an output layer that no ranks divide: give "
                  "tensor_parallel_degree = 1 without vocabulary_parallel_pipeline, or 1");
    return;
  }
  if (!s.model.norms_head()) {
    faults.refuse("training.loss_chunks",
                  "loss_chunks is built for models with a norm before the output layer");
    return;
  }
  const std::int64_t rows = std::int64_t{s.microbatch_size()} * s.training.seq_len /
                            std::max(1, s.strategy.context_parallel_degree);
  if (rows % chunks != 0) {
    faults.add("training.loss_chunks", "loss_chunks=" + std::to_string(chunks) +
                                           " does not divide the " + std::to_string(rows) +
                                           " rows of a microbatch that a rank has");
  }
}

void validate_sharding(const StrategySpec& p, Faults& faults) {
  if (p.accumulate_sharded_gradients == AccumulateShards::Always &&
      (p.zero_stage < 2 || p.state_shards() == 1)) {
    faults.add("parallelism.accumulate_sharded_gradients",
               "accumulate_sharded_gradients needs gradients in shards: zero_stage 2 or 3 and a "
               "data_parallel_shard_degree above 1");
  }
  if (!p.gradient_as_bucket_view && p.state_shards() > 1) {
    faults.refuse("parallelism.gradient_as_bucket_view",
                  "gradient_as_bucket_view is about DDP's buckets, and sharded gradients are "
                  "scattered from where they lie: leave it out");
  }
  if (p.fsdp_reshard_degree > 0 && p.data_parallel_shard_degree % p.fsdp_reshard_degree != 0) {
    faults.add("parallelism.fsdp_reshard_degree",
               "fsdp_reshard_degree=" + std::to_string(p.fsdp_reshard_degree) +
                   " must be 0 (all shards) or divide data_parallel_shard_degree=" +
                   std::to_string(p.data_parallel_shard_degree));
  }
  const bool gathers_updates =
      p.state_shards() > 1 && (p.zero_stage < 3 || p.fsdp_persistence_threshold > 0);
  if (p.overlap_param_gather && !gathers_updates) {
    faults.add("parallelism.overlap_param_gather",
               "overlap_param_gather moves the all-gather of updated parameters into the next "
               "step's forward pass; only ZeRO-1 and ZeRO-2 over several shards have one");
  }
}

/// False if there are more ranks than can be counted.
bool validate_strategy(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  const ClusterSpec& c = s.cluster;
  if (1.0 * c.nodes * c.devices_per_node * c.ranks_per_device > kMostRanks) {
    faults.add("cluster.nodes", "a cluster has at most " + std::to_string(kMostRanks) +
                                    " ranks (nodes × devices_per_node × ranks_per_device)");
    return false;
  }
  validate_tensor_parallel(s, faults);
  validate_expert_parallel(s, faults);
  validate_context_parallel(s, faults);
  validate_sharding(p, faults);
  const double world = 1.0 * p.data_parallel_replicate_degree * p.data_parallel_shard_degree *
                       p.context_parallel_degree * p.tensor_parallel_degree *
                       p.pipeline_parallel_degree;
  if (world > s.cluster.capacity()) {
    const std::string ranks = world <= kMostRanks ? std::to_string(p.world_size())
                                                  : "more than " + std::to_string(kMostRanks);
    faults.add("parallelism", "the strategy needs " + ranks + " ranks; cluster '" + s.cluster.name +
                                  "' has " + std::to_string(s.cluster.capacity()) +
                                  " (nodes × devices_per_node × ranks_per_device)");
    if (world > kMostRanks) return false;
  }
  if (s.what_if.straggler_rank >= p.world_size()) {
    faults.add("what_if.straggler_rank",
               "straggler_rank=" + std::to_string(s.what_if.straggler_rank) +
                   " is not a rank: the strategy has " + std::to_string(p.world_size()));
  }
  if (s.model.architecture == Architecture::Synthetic) return true;
  const auto& layout = p.pipeline_parallel_layers_per_stage;
  const std::string layout_key = "parallelism.pipeline_parallel_layers_per_stage";
  if (!layout.empty()) {
    if (layout.size() != static_cast<std::size_t>(p.num_stages())) {
      faults.add(layout_key, "layers_per_stage has " + std::to_string(layout.size()) +
                                 " values for " + std::to_string(p.num_stages()) + " stages");
    } else if (*std::min_element(layout.begin(), layout.end()) < 0 ||
               std::any_of(layout.begin() + 1, layout.end() - (layout.size() > 1 ? 1 : 0),
                           [](int blocks) { return blocks == 0; })) {
      faults.add(layout_key,
                 "a stage between the first, which has the embedding, and the last, which has the "
                 "output layer, needs at least one block");
    } else if (std::accumulate(layout.begin(), layout.end(), std::int64_t{0}) != s.model.layers) {
      faults.add(layout_key,
                 "layers_per_stage does not add up to layers=" + std::to_string(s.model.layers));
    }
  } else if (s.model.layers >= 1 && p.num_stages() > s.model.layers + 2) {
    faults.add("parallelism.pipeline_parallel_degree",
               std::to_string(p.num_stages()) + " stages need at least " +
                   std::to_string(p.num_stages() - 2) + " blocks; the model has " +
                   std::to_string(s.model.layers) +
                   ", beside an embedding and an output layer that can be stages of their own");
  }
  return true;
}

void validate_schedule(const Scenario& s, Faults& faults) {
  const StrategySpec& strategy = s.strategy;
  const int p = strategy.pipeline_parallel_degree;
  const int v = strategy.pipeline_parallel_virtual_stages;
  if (s.num_microbatches() < 1) return;  // noted already
  const int m = s.num_microbatches();
  if (!strategy.pipeline_parallel_schedule_csv.empty()) {
    for (const std::string& fault :
         check_schedule(strategy.pipeline_parallel_schedule_actions, p, strategy.num_stages(), m)) {
      faults.add("parallelism.pipeline_parallel_schedule_csv",
                 "'" + strategy.pipeline_parallel_schedule_csv + "': " + fault);
    }
    return;
  }
  const ScheduleRules& rules = rules_of(strategy.pipeline_parallel_schedule);
  const std::string name(rules.name);
  if (v < rules.least_virtual_stages || v > rules.most_virtual_stages) {
    const std::string needed = std::to_string(rules.least_virtual_stages);
    faults.add("parallelism.pipeline_parallel_virtual_stages",
               name + " needs " +
                   (rules.most_virtual_stages == kMostVirtualStages ? "at least " : "") + needed +
                   " virtual stage" + (needed == "1" ? "" : "s") + " per rank, got " +
                   std::to_string(v) + ": set pipeline_parallel_virtual_stages = " + needed);
  }
  const std::string microbatches = "parallelism.pipeline_parallel_microbatches";
  const int least = rules.least_microbatches(p);
  if (m < least) {
    faults.add(microbatches, name + " on " + std::to_string(p) + " ranks needs at least " +
                                 std::to_string(least) + " microbatches, got " + std::to_string(m));
  }
  if (rules.copies > 1 && p % rules.copies != 0) {
    faults.add("parallelism.pipeline_parallel_degree",
               name + " trains two copies of the model in opposite directions and needs an even " +
                   "number of pipeline ranks, got " + std::to_string(p));
  }
  if (m % rules.copies != 0) {
    faults.add(microbatches, name +
                                 " sends half of the microbatches each way and needs an even "
                                 "number, got " +
                                 std::to_string(m));
  }
  const int group = strategy.pipeline_parallel_microbatch_group_size;
  const std::string group_key = "parallelism.pipeline_parallel_microbatch_group_size";
  if (group != 0) {
    if (group < std::min(p, m) || group > m) {
      faults.add(group_key, "pipeline_parallel_microbatch_group_size=" + std::to_string(group) +
                                " must be between the pipeline degree and the number of "
                                "microbatches, " +
                                std::to_string(p) + " to " + std::to_string(m));
    } else if (m % group != 0 && m % group < p) {
      faults.add(group_key, "groups of " + std::to_string(group) + " leave " +
                                std::to_string(m % group) + " of " + std::to_string(m) +
                                " microbatches for the last, fewer than the " + std::to_string(p) +
                                " ranks");
    }
  } else if (rules.in_rounds) {
    const int rounds = std::max(1, m / p);
    if (m % rounds != 0) {
      faults.add(
          microbatches,
          name + " on " + std::to_string(p) + " ranks runs " + std::to_string(rounds) +
              " rounds of microbatches, which do not divide " + std::to_string(m) +
              (rules.takes_groups ? "; pipeline_parallel_microbatch_group_size sets other groups"
                                  : ""));
    }
  }
}

}  // namespace

std::vector<Fault> validate(const Scenario& scenario) {
  Faults faults;
  check_keys(scenario, faults);
  if (!faults.none()) return faults.take();  // other rules divide by sizes and degrees
  validate_model(scenario, faults);
  validate_encoder(scenario, faults);
  validate_parts(scenario, faults);
  validate_lora(scenario, faults);
  validate_campaign(scenario, faults);
  validate_optimizer(scenario, faults);
  if (validate_strategy(scenario, faults)) {  // batch and costs divide by the degrees
    validate_batch(scenario, faults);
    validate_documents(scenario, faults);
    validate_dropout(scenario, faults);
    validate_fp8(scenario, faults);
    validate_offload(scenario, faults);
    validate_types(scenario, faults);
    validate_activation_checkpoint(scenario, faults);
    validate_loss_chunks(scenario, faults);
    validate_schedule(scenario, faults);
    validate_vocabulary(scenario, faults);
    if (scenario.num_microbatches() >= 1) validate_versions(scenario, faults);
    validate_local_sgd(scenario, faults);
    validate_quantized_collectives(scenario, faults);
    validate_power_sgd(scenario, faults);
    validate_costs(scenario, faults);
  }
  return faults.take();
}

}  // namespace lockstep
