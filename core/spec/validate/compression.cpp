// What is sent in fewer bits (ZeRO++), or as products of low rank (PowerSGD).
#include <string>

#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_quantized_gradients(const StrategySpec& p, Faults& faults) {
  const int inner = p.zero_quantized_gradients_inner_degree;
  if (p.zero_stage < 2 || p.state_shards() == 1) {
    faults.add("parallelism.zero_quantized_gradients",
               "zero_quantized_gradients replaces the reduce-scatter of gradients to their shards: "
               "it needs zero_stage 2 or 3 and a data_parallel_shard_degree above 1");
  }
  if (inner > 0 && p.data_parallel_shard_degree % inner != 0) {
    faults.add("parallelism.zero_quantized_gradients_inner_degree",
               "zero_quantized_gradients_inner_degree=" + std::to_string(inner) +
                   " does not divide data_parallel_shard_degree=" +
                   std::to_string(p.data_parallel_shard_degree));
  }
  if (p.reshards_to_fewer() && inner != 0 && inner != p.fsdp_reshard_degree) {
    faults.add("parallelism.zero_quantized_gradients_inner_degree",
               "neighbours that exchange gradients first are those that share parameters after "
               "forward: give fsdp_reshard_degree=" +
                   std::to_string(p.fsdp_reshard_degree) + ", or leave it out");
  }
}

}  // namespace

void validate_quantized_collectives(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  if (!p.sends_codes()) return;
  const char* const key = p.zero_quantized_weights ? "parallelism.zero_quantized_weights"
                                                   : "parallelism.zero_quantized_gradients";
  if (p.zero_quantized_gradients) validate_quantized_gradients(p, faults);
  if (p.zero_quantized_weights && p.zero_stage != 3) {
    faults.add(
        key,
        "zero_quantized_weights is of the gathers of parameters that a rank keeps in shards: "
        "it needs zero_stage = 3");
  }
  const std::int64_t block = p.zero_quantized_block_size;
  faults.require(block % 2 == 0, "parallelism.zero_quantized_block_size",
                 "must be even, got " + std::to_string(block));
  if (s.model.architecture == Architecture::Synthetic) {
    faults.add(key, "the synthetic model has neither parameters nor gradients to send");
  }
  if (p.expert_parallel_degree > 1) {
    faults.refuse(
        key,
        "quantized collectives are not built beside expert parallelism: experts that one rank "
        "holds alone are not "
        "sent, and would be the only ones that are not rounded; leave one of the two out");
  }
}

void validate_power_sgd(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  const char* const key = "power_sgd.matrix_approximation_rank";
  if (!p.power_sgd.on()) return;
  if (s.model.architecture == Architecture::Synthetic) {
    faults.add(key, "the synthetic model has no gradients to compress");
  }
  if (p.state_shards() > 1) {
    faults.refuse(
        key,
        "PowerSGD compresses the all-reduce of DDP, and gradients in shards are scattered: give "
        "zero_stage = 0, or leave [power_sgd] out");
  }
  if (p.tensor_parallel_degree > 1 || p.vocabulary_parallel_pipeline) {
    faults.refuse(
        key,
        "PowerSGD is not built where ranks divide matrices: a product that approximates a part "
        "is not that part of what approximates the whole, so that training would depend on the "
        "layout; leave [power_sgd] out");
  }
  if (s.model.experts > 0) {
    faults.refuse(
        key,
        "PowerSGD is not built for experts, whose gradients are many small matrices: leave "
        "[power_sgd] out");
  }
  const ScheduleRules& rules = rules_of(p.pipeline_parallel_schedule);
  const bool named = p.pipeline_parallel_schedule_csv.empty();
  if (p.pipeline_parallel_degree > 1 && (s.model.tied_embeddings || (named && rules.copies > 1))) {
    faults.refuse(
        key,
        "PowerSGD is refused where pipeline ranks add up gradients of one parameter (tied "
        "embeddings, schedules that train two copies): the sum of two products of low rank has "
        "a higher one; untie the embeddings, or take another schedule");
  }
  if (p.weight_versions() != WeightVersions::One) {
    faults.refuse(key, std::string(rules.name) +
                           " updates weights while microbatches are under way: PowerSGD "
                           "is built for one all-reduce a step; take another schedule");
  }
  if (p.trains_apart()) {
    faults.refuse(key,
                  "replicas that train apart do not sum their gradients: leave [power_sgd] out");
  }
  if (s.training.scales_loss()) {
    faults.refuse(
        key,
        "a step whose gradients overflow in float16 would leave infinities in what PowerSGD "
        "feeds back: train in bfloat16");
  }
  if (size_of(s.training.reduce_dtype()) < 4) {
    faults.refuse(key,
                  "PowerSGD makes bases orthonormal, for which 16 bits are too few: give "
                  "mixed_precision_reduce = \"float32\"");
  }
  if (!p.gradient_as_bucket_view) {
    faults.refuse(key,
                  "PowerSGD is built for gradients that lie in their buckets: give "
                  "gradient_as_bucket_view = true");
  }
}

}  // namespace lockstep
