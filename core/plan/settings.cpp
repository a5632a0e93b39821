#include "core/plan/settings.hpp"

#include <algorithm>
#include <numeric>

#include "core/plan/recomputation.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

/// Those of `strategies` that differ from the layout's own and are not refused.
std::vector<Scenario> others(const Scenario& layout, const std::vector<StrategySpec>& strategies) {
  std::vector<Scenario> result;
  for (const StrategySpec& strategy : strategies) {
    if (strategy == layout.strategy) continue;
    Scenario other = layout;
    other.strategy = strategy;
    if (validate(other).empty()) result.push_back(std::move(other));
  }
  return result;
}

std::vector<Scenario> accumulation(const Scenario& layout) {
  StrategySpec other = layout.strategy;
  const bool shards = other.state_shards() > 1 && other.zero_stage >= 2;
  if (!shards || layout.microbatches_per_update() == 1) return {};
  other.accumulate_sharded_gradients =
      layout.accumulates_shards() ? AccumulateShards::Never : AccumulateShards::Always;
  return others(layout, {other});
}

std::vector<Scenario> prefetch(const Scenario& layout) {
  if (layout.strategy.state_shards() == 1 || layout.strategy.zero_stage != 3) return {};
  std::vector<StrategySpec> strategies;
  for (const int units : {0, 1, 2, 4}) {
    strategies.push_back(layout.strategy);
    strategies.back().fsdp_prefetch = units;
  }
  return others(layout, strategies);
}

std::vector<Scenario> buckets(const Scenario& layout) {
  const bool replicas = layout.strategy.gradient_ranks() > 1 && layout.strategy.state_shards() == 1;
  if (!replicas || !layout.strategy.overlap_grad_reduce) return {};
  std::vector<StrategySpec> strategies;
  for (const std::int64_t mebibytes : {25, 100, 400}) {
    strategies.push_back(layout.strategy);
    strategies.back().bucket_cap = Bytes{mebibytes << 20};
  }
  return others(layout, strategies);
}

/// Whole blocks in fewer than all of them.
std::vector<Scenario> fewer_recomputed(const Scenario& layout, Bytes capacity,
                                       const Prober& prober) {
  if (layout.activation_checkpoint.mode != ActivationCheckpoint::Full || capacity.v <= 0) return {};
  const auto least = least_recomputation(layout, capacity, prober);
  // With none recomputed it is a layout of its own, which has been compared.
  if (!least || std::accumulate(least->begin(), least->end(), 0) == 0) return {};
  Scenario other = layout;
  other.activation_checkpoint.recomputed_layers_per_stage = *least;
  return {other};
}

}  // namespace

std::vector<Alternatives> settings_of_communication() { return {accumulation, prefetch, buckets}; }

std::vector<Alternatives> settings(Bytes capacity, const Prober& prober) {
  std::vector<Alternatives> all = settings_of_communication();
  all.push_back([capacity, &prober](const Scenario& layout) {
    return fewer_recomputed(layout, capacity, prober);
  });
  return all;
}

bool has_settings_of_communication(const Scenario& layout) {
  const std::vector<Alternatives> all = settings_of_communication();
  return std::any_of(all.begin(), all.end(), [&](const Alternatives& alternatives) {
    return !alternatives(layout).empty();
  });
}

}  // namespace lockstep
