#include "core/plan/estimate/reduced.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/schedule/schedules.hpp"

namespace lockstep {
namespace {

constexpr int kManyCores = 1 << 20;

Scenario with_blocks(const Scenario& layout, std::int64_t blocks) {
  Scenario s = layout;
  s.model.layers = blocks;
  s.name.clear();
  s.expect.clear();
  s.strategy.pipeline_parallel_virtual_stages = 1;
  s.strategy.pipeline_parallel_microbatch_group_size = 0;
  s.strategy.pipeline_parallel_layers_per_stage.clear();
  s.activation_checkpoint.recomputed_layers_per_stage.clear();
  s.cluster.loader = {};  // which is for whole steps: Estimator::estimate()
  return s;
}

}  // namespace

Schedule probe_schedule(int stages, int microbatches, bool split) {
  Schedule schedule;
  for (int s = 0; s < stages; ++s) {
    schedule.rank_of_stage.push_back(s);
    Actions actions;
    for (int mb = 0; mb < microbatches; ++mb) actions.push_back({Phase::F, s, mb});
    for (int mb = 0; mb < microbatches; ++mb) {
      actions.push_back({split ? Phase::I : Phase::B, s, mb});
    }
    for (int mb = 0; split && mb < microbatches; ++mb) actions.push_back({Phase::W, s, mb});
    schedule.actions.push_back(actions);
  }
  return schedule;
}

Scenario reduced_step(const Scenario& layout, std::int64_t blocks, int microbatches) {
  Scenario s = with_blocks(layout, blocks);
  s.strategy.pipeline_parallel_microbatches = 1;
  s.strategy.pipeline_parallel_schedule = PipelineSchedule::OneFOneB;  // no pipeline has one
  s.training.local_batch_size = layout.microbatch_size();
  s.training.global_batch_size =
      s.training.local_batch_size * s.strategy.data_parallel_degree() * microbatches;
  return s;
}

bool has_tied_ends(const Scenario& layout) {
  const StrategySpec& p = layout.strategy;
  if (!layout.model.tied_embeddings || !p.pipeline_parallel_schedule_csv.empty()) return false;
  const std::vector<int> ranks =
      place_stages(rules_of(p.pipeline_parallel_schedule).placement, p.pipeline_parallel_degree,
                   p.pipeline_parallel_virtual_stages);
  return ranks.front() == ranks.back();
}

Scenario reduced_pipeline(const Scenario& layout, int stages, int blocks, int microbatches) {
  Scenario s = with_blocks(layout, std::int64_t{stages} * blocks);
  if (has_tied_ends(layout)) s.model.tied_embeddings = false;
  const int ranks = layout.strategy.world_size() / layout.strategy.pipeline_parallel_degree;
  const int node = s.cluster.ranks_per_node();
  s.cluster.nodes = (stages * ranks + node - 1) / node;
  // Ranks that share a device do not hold each other up here. How much they do depends on how many
  // stages run at once, which the probe's are not: the estimate adds it.
  if (s.cluster.ranks_per_device > 1) s.cluster.device.concurrent_ranks = kManyCores;
  s.strategy.pipeline_parallel_degree = stages;
  s.strategy.pipeline_parallel_layers_per_stage.assign(to_size(stages), blocks);
  s.strategy.pipeline_parallel_microbatches = microbatches;
  s.strategy.pipeline_parallel_schedule_csv = "probe";
  s.strategy.pipeline_parallel_schedule_actions =
      probe_schedule(stages, microbatches, splits_backward(layout));
  s.strategy.pipeline_parallel_schedule = PipelineSchedule::GPipe;
  s.training.local_batch_size = microbatches * layout.microbatch_size();
  s.training.global_batch_size = s.training.local_batch_size * s.strategy.data_parallel_degree();
  return s;
}

bool splits_backward(const Scenario& layout) {
  return rules_of(layout.strategy.pipeline_parallel_schedule).backward != Backward::Whole;
}

bool mixes_backward(const Scenario& layout) {
  return rules_of(layout.strategy.pipeline_parallel_schedule).backward == Backward::Paired;
}

Scenario with_whole_backward(const Scenario& layout) {
  Scenario s = layout;
  s.strategy.pipeline_parallel_schedule = PipelineSchedule::OneFOneB;
  return s;
}

int period_of_blocks(const Scenario& layout) {
  const int experts = layout.model.experts > 0 ? static_cast<int>(layout.model.expert_period) : 1;
  int every = 1;
  const ActivationCheckpointSpec& checkpoint = layout.activation_checkpoint;
  if (checkpoint.mode == ActivationCheckpoint::Selective) {
    const std::string& option = checkpoint.selective_ac_option;
    std::from_chars(option.data(), option.data() + option.size(), every);
  }
  return std::lcm(experts, std::max(1, every));
}

int blocks_before_period(const Scenario& layout) {
  const int period = period_of_blocks(layout);
  const int dense = layout.model.experts > 0 ? static_cast<int>(layout.model.dense_layers) : 0;
  const TrainingSpec& t = layout.training;
  const int wide = t.fp8 != Fp8Format::None ? t.num_layers_at_start_in_bf16 : 0;
  return (std::max(dense, wide) + period - 1) / period * period;
}

int blocks_after_period(const Scenario& layout) {
  const TrainingSpec& t = layout.training;
  const int wide = t.fp8 != Fp8Format::None ? t.num_layers_at_end_in_bf16 : 0;
  if (wide == 0) return 0;
  return wide + static_cast<int>((layout.model.layers - wide) % period_of_blocks(layout));
}

Scenario one_period(const Scenario& layout) {
  Scenario s = layout;
  if (s.model.has_batch_norm()) return s;
  s.model.layers = std::min<std::int64_t>(
      s.model.layers,
      blocks_before_period(layout) + period_of_blocks(layout) + blocks_after_period(layout));
  return s;
}

void repeat_blocks(Model& model, const Scenario& layout) {
  const int made = static_cast<int>(one_period(layout).model.layers);
  const auto first = std::find_if(model.layers.begin(), model.layers.end(),
                                  [](const Layer& layer) { return layer.is_block(); });
  if (layout.model.has_batch_norm() || first == model.layers.end()) return;
  const auto begin = first - model.layers.begin();
  const int after = std::min(made, blocks_after_period(layout)), typical = made - after;
  const std::vector<Layer> period(first + std::min(typical, blocks_before_period(layout)),
                                  first + typical);
  std::vector<Layer> more;
  for (int i = 0; i < static_cast<int>(layout.model.layers) - made; ++i) {
    more.push_back(period[to_size(i) % period.size()]);
  }
  model.layers.insert(model.layers.begin() + begin + typical, more.begin(), more.end());
  for (std::int64_t i = typical; i < layout.model.layers; ++i) {
    model.layers[to_size(begin + i)].name = "blocks." + std::to_string(i);
  }
}

double kept_bytes(const std::vector<LayerStep>& forward) {
  double bytes = 0;
  std::vector<std::string> seen;
  for (const LayerStep& step : forward) {
    const auto* f = std::get_if<Function>(&step);
    if (f == nullptr) continue;
    for (const Formal& formal : f->formals) {
      if (!formal.name.starts_with("saved")) continue;
      if (std::find(seen.begin(), seen.end(), formal.name) != seen.end()) continue;
      seen.push_back(formal.name);
      bytes += static_cast<double>(formal.bytes.v);
    }
  }
  return bytes;
}

}  // namespace lockstep
