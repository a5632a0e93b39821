#include "core/plan/found_layout.hpp"

#include <numeric>

#include "core/format/format.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

std::string layout_name(const Scenario& layout) {
  const StrategySpec& p = layout.strategy;
  std::string name;
  const auto add = [&](const std::string& part) { name += (name.empty() ? "" : " · ") + part; };
  const auto degree = [](const char* axis, int d) {
    return std::string(axis) + " " + std::to_string(d);
  };
  if (p.tensor_parallel_degree > 1) add(degree("tp", p.tensor_parallel_degree));
  if (p.context_parallel_degree > 1) add(degree("cp", p.context_parallel_degree));
  if (p.pipeline_parallel_degree > 1) {
    const ScheduleRules& rules = rules_of(p.pipeline_parallel_schedule);
    std::string text = degree("pp", p.pipeline_parallel_degree) + " " + std::string(rules.name);
    if (rules.takes_chunks()) text += degree(" v", p.pipeline_parallel_virtual_stages);
    add(text);
  }
  if (p.gradient_ranks() > 1) {
    const bool shards = p.state_shards() > 1;
    add(degree("dp", p.data_parallel_degree()) +
        (!shards             ? " DDP"
         : p.zero_stage == 3 ? p.data_parallel_replicate_degree > 1 ? " HSDP" : " FSDP"
                             : degree(" ZeRO", p.zero_stage)));
  }
  if (p.expert_parallel_degree > 1) {
    add(degree("ep", p.expert_parallel_degree) + (p.expert_parallel_folding ? " folded" : ""));
  }
  if (p.expert_tensor_parallel_degree > 1) {
    add(degree("etp", p.expert_tensor_parallel_degree));
  }
  add(std::to_string(layout.num_microbatches()) + " × " + std::to_string(layout.microbatch_size()));
  const ActivationCheckpointSpec& recomputed = layout.activation_checkpoint;
  if (recomputed.mode != ActivationCheckpoint::None) {
    const auto& counts = recomputed.recomputed_layers_per_stage;
    add((recomputed.mode == ActivationCheckpoint::Full
             ? "full recomputation"
             : "recomputation " + recomputed.selective_ac_option) +
        (counts.empty()
             ? ""
             : " in " + std::to_string(std::accumulate(counts.begin(), counts.end(), 0)) + " of " +
                   std::to_string(layout.model.layers) + " blocks"));
  }
  const StrategySpec usual;
  const bool shards = p.state_shards() > 1;
  if (shards && p.zero_stage == 3 && p.fsdp_prefetch != usual.fsdp_prefetch) {
    add(degree("prefetch", p.fsdp_prefetch));
  }
  if (shards && p.accumulate_sharded_gradients == AccumulateShards::Always) {
    add("accumulation in shards");
  }
  if (shards && p.accumulate_sharded_gradients == AccumulateShards::Never) {
    add("accumulation of whole gradients");
  }
  if (!shards && p.gradient_ranks() > 1 && p.bucket_cap != usual.bucket_cap) {
    add("bucket_cap_mb " + std::to_string(p.bucket_cap.v >> 20));
  }
  if (p.offload == Offload::Optimizer) add("offload");
  if (p.offload == Offload::Parameters) add("offload of parameters");
  return name;
}

std::string layout_file(const Scenario& layout) {
  return "# Found by lockstep search: " + layout_name(layout) + "\n" + print_scenario(layout);
}

std::string trained_on(const Scenario& scenario) {
  return scenario.model.is_vision() ? "images" : "tokens";
}

std::string search_task(const Scenario& scenario) {
  const std::string batch = std::to_string(scenario.global_batch_size());
  const std::string software = software_of(scenario.cluster);
  return scenario.model.name + " on " + scenario.cluster.name +
         (software.empty() ? "" : " " + as_run_by(software)) + ", " + batch +
         (scenario.model.is_vision()
              ? " images a step"
              : " sequences of " + std::to_string(scenario.training.seq_len) + " tokens a step");
}

}  // namespace lockstep
