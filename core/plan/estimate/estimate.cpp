#include "core/plan/estimate/estimate.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/cost/loading.hpp"
#include "core/cost/network.hpp"
#include "core/lower/draft/draft.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/plan/estimate/pipeline_run.hpp"
#include "core/plan/estimate/posted_run.hpp"
#include "core/plan/estimate/reduced.hpp"
#include "core/plan/estimate/stage_costs.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {
namespace {

/// A message that takes more than this part of a forward pass is outside the claim.
constexpr double kLongMessage = 0.1;
/// So is a step of which more than this part is beside the passes of the pipeline.
constexpr double kMuchBeside = 0.05;
/// So is sequence parallelism over so many ranks. What is left of a block's functions is short, and
/// which transfers they wait for differs from one microbatch to the next.
constexpr int kManyOfSequence = 8;

/// The value at (x, y) of what is linear in either, from its values at the corners [x][y] of a
/// square.
struct Corners {
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;
  double f[2][2] = {};
  double at(double x, double y) const {
    const double s = x1 > x0 ? (x - x0) / (x1 - x0) : 0, t = y1 > y0 ? (y - y0) / (y1 - y0) : 0;
    return (1 - s) * ((1 - t) * f[0][0] + t * f[0][1]) + s * ((1 - t) * f[1][0] + t * f[1][1]);
  }
};

/// The message between stages s and s + 1 of the layout, as that between the first two stages of
/// the probe, but over its own link.
MessageTime over_own_link(const MessageTime& probed, const Scenario& s, std::int64_t bytes,
                          int rank, int next) {
  const int ranks = s.strategy.world_size() / s.strategy.pipeline_parallel_degree;
  const LinkSpec first = link_between(s.cluster, Rank{0}, Rank{ranks});
  const LinkSpec own = link_between(s.cluster, Rank{rank * ranks}, Rank{next * ranks});
  if (own == first) return probed;
  const TransferTime a = p2p_time({bytes}, first), b = p2p_time({bytes}, own);
  return {std::max(0.0, probed.busy + (b.transfer - a.transfer).v),
          std::max(0.0, probed.arrival + (b.total() - a.total()).v)};
}

/// Repeats the blocks of a draft of one_period(layout). By layer, how much more of a microbatch a
/// block keeps than the blocks do on average, such as one that is not computed again beside some
/// that are; 0 for the layers at the ends.
std::vector<double> kept_beyond_mean(Draft& draft, const Scenario& layout) {
  std::vector<double> of_kind;
  for (int k = 0; k < static_cast<int>(draft.model.kinds.size()); ++k) {
    of_kind.push_back(kept_bytes(draft.steps(k, Phase::F, {})));
  }
  repeat_blocks(draft.model, layout);
  const auto& layers = draft.model.layers;
  std::vector<double> beyond(layers.size(), 0.0);
  const auto is_block = [&](std::size_t l) { return layers[l].is_block(); };
  const int period = period_of_blocks(layout);
  double sum = 0;
  int counted = 0, skipped = 0;
  for (std::size_t l = layers.size(); l-- > 0;) {  // the last typical blocks are whole periods
    if (!is_block(l)) continue;
    beyond[l] = of_kind[to_size(layers[l].kind)];
    if (skipped++ < blocks_after_period(layout)) continue;
    if (counted < period) sum += beyond[l], ++counted;
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (is_block(l)) beyond[l] -= sum / std::max(counted, 1);
  }
  return beyond;
}

/// How many of the layout's ranks a device has to carry for each that it runs at full rate.
double crowd(const Scenario& s) {
  const int ranks = std::min(s.cluster.ranks_per_device, s.strategy.world_size());
  return std::max(1.0, static_cast<double>(ranks) / std::max(1, s.cluster.device.concurrent_ranks));
}

/// The devices that the ranks of a pipeline share; nullopt if each has its own.
std::optional<SharedDevices> shared_devices(const Scenario& s) {
  if (s.cluster.ranks_per_device == 1) return std::nullopt;
  const int stages = s.strategy.pipeline_parallel_degree;
  const int of_stage = s.strategy.world_size() / stages;
  SharedDevices shared;
  shared.cores = std::max(1, s.cluster.device.concurrent_ranks);
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<SharedDevices::Part> parts;
    for (int r = stage * of_stage; r < (stage + 1) * of_stage; ++r) {
      const int device = r / s.cluster.ranks_per_device;
      if (parts.empty() || parts.back().device != device) parts.push_back({device, 0});
      ++parts.back().ranks;
    }
    shared.parts.push_back(std::move(parts));
  }
  return shared;
}

}  // namespace

std::string_view outside_the_claim(const Scenario& s) {
  const StrategySpec& p = s.strategy;
  if (s.model.architecture == Architecture::Synthetic) return "the synthetic model";
  if (s.model.has_batch_norm()) return "models with batch norm";
  if (!s.model.frozen.empty()) return "frozen parameters";
  if (p.offload != Offload::None) return "offload";
  if (p.trains_apart()) return "replicas that train apart";
  if (p.sends_codes() || p.power_sgd.on()) return "compressed communication";
  if (s.what_if.straggler_rank >= 0 || s.what_if.jitter != 0) return "stragglers and jitter";
  if (s.cluster.ranks_per_device > 1) return "ranks that share a device";
  if (s.cluster.loader.sample.v > 0) return "a data loader";
  if (!s.activation_checkpoint.recomputed_layers_per_stage.empty()) {
    return "recomputation that differs from block to block";
  }
  if (p.sequence_parallel() && p.tensor_parallel_degree >= kManyOfSequence) {
    return "sequence parallelism over eight ranks";
  }
  if (p.tensor_parallel_chunks > 1) return "sequence parallelism in chunks";
  const bool shards = p.state_shards() > 1;
  if (p.pipeline_parallel_degree == 1) {
    if (shards && p.zero_stage == 2) return "gradients that are scattered for every microbatch";
    // What is exposed of gathers differs from block to block.
    if (shards && p.zero_stage == 3) return "parameters that are gathered for every microbatch";
    return {};
  }
  if (p.pipeline_parallel_degree == 2) return "pipelines of two ranks";
  // The first stage is probed with as many blocks without experts as it has, and is another kind.
  if (s.model.dense_layers > 0) return "stages that begin with blocks without experts";
  if (s.training.fp8 != Fp8Format::None &&
      s.training.num_layers_at_start_in_bf16 + s.training.num_layers_at_end_in_bf16 > 0) {
    return "stages that begin or end with blocks in 16 bits";
  }
  const ScheduleRules& rules = rules_of(p.pipeline_parallel_schedule);
  if (!rules.one_by_one || !rules.drains()) {
    return "schedules other than 1F1B, interleaved or not";
  }
  if (shards && p.zero_stage == 2 && p.pipeline_parallel_virtual_stages > 1) {
    return "gradients of chunks that are scattered";
  }
  if (!p.pipeline_parallel_schedule_csv.empty()) return "schedules from files";
  if (waits_in_messages(p)) {
    return "messages that are fused or blocking";
  }
  if (p.zero_stage == 3 && p.state_shards() > 1 && p.fsdp_max_active_stages > 0 &&
      p.pipeline_parallel_virtual_stages > p.fsdp_max_active_stages) {
    return "stages that are gathered again";
  }
  const int node = s.cluster.ranks_per_node();
  const int ranks = p.world_size() / p.pipeline_parallel_degree;
  if (ranks % node != 0 && p.world_size() > node) return "stages that share nodes";
  return {};
}

/// Whether programs with fewer blocks and microbatches say what the layout takes. Where pipeline
/// ranks share the vocabulary, the schedule has stages and collectives between all ranks that no
/// list of independent actions has.
bool Estimator::has_small_programs(const Scenario& layout) {
  return layout.strategy.vocabulary_stages() == 1;
}

/// Figures of a small program without a pipeline.
struct Estimator::StepFigures {
  double step = 0;
  RoleMemory memory;
};

/// The numbers of blocks and of microbatches that small programs without a pipeline have.
struct Estimator::StepGrid {
  explicit StepGrid(const Scenario& layout) {
    // A few blocks at either end are not typical: what is gathered ahead of the first has nothing
    // to hide behind, and reductions of the output layer hold up those of blocks after it.
    const int period = period_of_blocks(layout);
    // Where blocks are gathered, what is exposed settles late.
    const bool gathers = layout.strategy.zero_stage == 3 && layout.strategy.state_shards() > 1;
    const int few = std::max(gathers ? 27 : 7, 2 + layout.strategy.fsdp_prefetch) +
                    blocks_before_period(layout) + blocks_after_period(layout);
    const std::int64_t layers = layout.model.layers;
    blocks[0] = few - few % period + period + layers % period;
    blocks[1] = blocks[0] + 4 * period;
    if (blocks[1] >= layers) blocks[0] = blocks[1] = layers;
    microbatches[0] = std::min(3, layout.num_microbatches());
    microbatches[1] = std::min(4, layout.num_microbatches());
  }
  std::int64_t blocks[2] = {};
  int microbatches[2] = {};
};

struct Estimator::Memory {
  struct ScenarioHash {
    std::size_t operator()(const Scenario& s) const {
      std::uint64_t hash = 0;
      const StrategySpec& p = s.strategy;
      for (const std::int64_t part :
           {s.model.layers, std::int64_t{p.tensor_parallel_degree},
            std::int64_t{p.context_parallel_degree}, std::int64_t{p.pipeline_parallel_degree},
            std::int64_t{p.data_parallel_shard_degree},
            std::int64_t{p.data_parallel_replicate_degree}, std::int64_t{p.expert_parallel_degree},
            std::int64_t{p.zero_stage}, std::int64_t{p.pipeline_parallel_virtual_stages},
            std::int64_t{s.training.local_batch_size}, std::int64_t{s.training.global_batch_size},
            std::int64_t{static_cast<int>(s.activation_checkpoint.mode)}}) {
        hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };

  /// What is remembered, by the small scenario itself, so that nothing that matters is left out of
  /// a key.
  template <class T>
  class Table {
   public:
    /// The value of `key`, made by `make` where it is not known. Two threads may both make one.
    template <class Make>
    Result<std::shared_ptr<const T>> get(const Scenario& key, const Make& make) {
      {
        const std::lock_guard lock(mutex_);
        const auto it = known_.find(key);
        if (it != known_.end()) return it->second;
      }
      Result<T> value = make();
      if (!value) return value.error();
      const std::lock_guard lock(mutex_);
      return known_.try_emplace(key, std::make_shared<const T>(std::move(*value))).first->second;
    }
    bool knows(const Scenario& key) {
      const std::lock_guard lock(mutex_);
      return known_.contains(key);
    }

   private:
    std::mutex mutex_;
    std::unordered_map<Scenario, std::shared_ptr<const T>, ScenarioHash> known_;
  };

  /// How the layers of a layout are divided into stages.
  struct Parts {
    Model model;
    std::vector<StageLayers> stages;
    /// By layer: what a microbatch keeps of it beyond the mean of the blocks; of blocks alone.
    std::vector<double> kept_beyond;
  };

  Table<StepFigures> steps;
  Table<StageCosts> stages;  // by the smallest probe
  Table<Parts> parts;        // by the layout with one microbatch
};

Estimator::Estimator(Prober prober)
    : prober_([this, prober = std::move(prober)](const Scenario& s) {
        ++probes_;
        return prober(s);
      }),
      memory_(std::make_unique<Memory>()) {}
Estimator::~Estimator() = default;

Result<LayoutEstimate> Estimator::estimate(const Scenario& layout) {
  if (!has_small_programs(layout)) return estimate_whole(layout);
  Result<LayoutEstimate> estimate = layout.strategy.pipeline_parallel_degree == 1
                                        ? estimate_step(layout)
                                        : estimate_pipeline(layout);
  if (!estimate) return estimate;
  if (estimate->unclaimed.empty()) estimate->unclaimed = outside_the_claim(layout);
  const int per_rank = layout.global_batch_size() / layout.strategy.data_parallel_degree();
  estimate->step_time =
      std::max(estimate->step_time,
               loading_pace(per_rank, layout.microbatch_size(), layout.cluster.loader).step);
  return estimate;
}

Result<std::shared_ptr<const Estimator::StepFigures>> Estimator::step_figures(
    const Scenario& small) {
  return memory_->steps.get(small, [&]() -> Result<StepFigures> {
    const Result<Probe> probe = prober_(small);
    if (!probe) return probe.error();
    return StepFigures{probe->step.v, role_memory(*probe, RoleId{0}, small.cluster.framework)};
  });
}

Result<std::shared_ptr<const StageCosts>> Estimator::costs_of_stages(const Scenario& smallest,
                                                                     const Scenario& layout) {
  return memory_->stages.get(smallest, [&] { return stage_costs(layout, prober_); });
}

std::vector<Estimator::Piece> Estimator::missing(const std::vector<const Scenario*>& layouts) {
  std::vector<Piece> pieces;
  std::unordered_set<Scenario, Memory::ScenarioHash> listed;
  const auto need = [&](Scenario key, const Scenario& layout, auto& table) {
    if (table.knows(key) || !listed.insert(key).second) return;
    pieces.push_back({std::move(key), layout});
  };
  for (const Scenario* layout : layouts) {
    if (!has_small_programs(*layout)) continue;
    if (layout->strategy.pipeline_parallel_degree > 1) {
      need(smallest_probe(*layout), *layout, memory_->stages);
      if (mixes_backward(*layout)) {
        const Scenario other = with_whole_backward(*layout);
        need(smallest_probe(other), other, memory_->stages);
      }
      continue;
    }
    const StepGrid grid(*layout);
    for (const std::int64_t blocks : grid.blocks) {
      for (const int microbatches : grid.microbatches) {
        need(reduced_step(*layout, blocks, microbatches), *layout, memory_->steps);
      }
    }
  }
  const auto length = [](const Piece& piece) {
    return piece.key.model.layers * piece.key.num_microbatches();
  };
  std::stable_sort(pieces.begin(), pieces.end(),
                   [&](const Piece& a, const Piece& b) { return length(a) > length(b); });
  return pieces;
}

void Estimator::make(const Piece& piece) {
  if (piece.layout.strategy.pipeline_parallel_degree > 1) {
    static_cast<void>(costs_of_stages(piece.key, piece.layout));
  } else {
    static_cast<void>(step_figures(piece.key));
  }
}

Result<LayoutEstimate> Estimator::estimate_whole(const Scenario& layout) {
  const Result<Probe> whole = prober_(layout);
  if (!whole) return whole.error();
  const Bytes needed = *std::max_element(whole->needed.begin(), whole->needed.end());
  return LayoutEstimate{whole->step, needed, {}};
}

Result<LayoutEstimate> Estimator::estimate_step(const Scenario& layout) {
  const StepGrid grid(layout);
  Corners time;
  ByMoment<Corners> needed;
  double holes = 0;
  time.x0 = static_cast<double>(grid.blocks[0]);
  time.x1 = static_cast<double>(grid.blocks[1]);
  time.y0 = grid.microbatches[0];
  time.y1 = grid.microbatches[1];
  for (ByPlace<Corners>& places : needed) places.fill(time);
  for (const bool x : {false, true}) {
    for (const bool y : {false, true}) {
      const auto figures = step_figures(reduced_step(layout, grid.blocks[x], grid.microbatches[y]));
      if (!figures) return figures.error();
      time.f[x][y] = (*figures)->step;
      holes = std::max(holes, (*figures)->memory.holes);
      for (int i = 0; i < kNumStepParts; ++i) {
        const auto part = static_cast<StepPart>(i);
        for (int j = 0; j < kNumLayerPlaces; ++j) {
          const auto place = static_cast<LayerPlace>(j);
          needed[part][place].f[x][y] = (*figures)->memory.needed[part][place];
        }
      }
    }
  }
  const auto at = static_cast<double>(layout.model.layers);
  const int microbatches = layout.num_microbatches();
  double most = 0;
  for (const ByPlace<Corners>& places : needed) {
    for (const Corners& place : places) most = std::max(most, place.at(at, microbatches));
  }
  return LayoutEstimate{
      Seconds{time.at(at, microbatches)}, Bytes{static_cast<std::int64_t>(most + holes)}, {}};
}

Result<LayoutEstimate> Estimator::estimate_pipeline(const Scenario& layout) {
  const auto known = costs_of_stages(smallest_probe(layout), layout);
  if (!known) return known.error();
  const StageCosts& costs = **known;
  std::shared_ptr<const StageCosts> of_whole_passes;
  if (mixes_backward(layout)) {
    const Scenario other = with_whole_backward(layout);
    const auto costs_of_other = costs_of_stages(smallest_probe(other), other);
    if (!costs_of_other) return costs_of_other.error();
    of_whole_passes = *costs_of_other;
  }

  Scenario one = layout;  // how layers are divided depends on neither the batch nor the schedule
  one.training.local_batch_size = layout.microbatch_size();
  one.training.global_batch_size =
      one.training.local_batch_size * layout.strategy.data_parallel_degree();
  one.strategy.pipeline_parallel_microbatches = 1;
  one.strategy.pipeline_parallel_schedule = PipelineSchedule::OneFOneB;
  one.activation_checkpoint.recomputed_layers_per_stage.clear();
  const auto parts = memory_->parts.get(one, [&]() -> Result<Memory::Parts> {
    const Scenario small = one_period(one);
    Draft draft(small);
    std::vector<double> kept_beyond = kept_beyond_mean(draft, one);
    Model model = std::move(draft.model);
    std::vector<StageLayers> stages = partition(model, one.model, one.strategy);
    return Memory::Parts{std::move(model), std::move(stages), std::move(kept_beyond)};
  });
  if (!parts) return parts.error();
  const std::vector<StageLayers>& stages = (*parts)->stages;
  const Model& model = (*parts)->model;

  const StrategySpec& strategy = layout.strategy;
  const int p = strategy.pipeline_parallel_degree;
  const auto n = static_cast<int>(stages.size());
  const auto last_layer = static_cast<int>(model.layers.size()) - 1;
  PipelineCost cost;
  std::vector<int> blocks;
  for (int s = 0; s < n; ++s) {
    const StageLayers& layers = stages[to_size(s)];
    blocks.push_back(std::min(layers.last, last_layer) - std::max(layers.first, 1));
    cost.stages.push_back(costs.stage(costs.kind(s, n), blocks.back()));
    if (of_whole_passes) {
      cost.stages.back().backward =
          of_whole_passes->stage(costs.kind(s, n), blocks.back()).backward;
    }
    for (int l = layers.first; l < layers.last; ++l) {
      cost.stages.back().kept += (*parts)->kept_beyond[to_size(l)];
    }
  }
  const std::vector<int> ranks =
      place_stages(rules_of(strategy.pipeline_parallel_schedule).placement, p,
                   strategy.pipeline_parallel_virtual_stages);
  for (int s = 0; s + 1 < n; ++s) {
    const int a = ranks[to_size(s)], b = ranks[to_size(s + 1)];
    const std::int64_t bytes = model.layers[stages[to_size(s)].last - 1].output_bytes;
    cost.forward.push_back(over_own_link(costs.at_low.forward[0], layout, bytes, a, b));
    cost.backward.push_back(over_own_link(costs.at_low.backward[0], layout, bytes, a, b));
  }

  // After three groups of microbatches every rank repeats itself group by group.
  const int m = layout.num_microbatches();
  const int group = interleave_group(strategy.pipeline_parallel_microbatch_group_size, p, m);
  const bool groups = strategy.pipeline_parallel_virtual_stages > 1 && !splits_backward(layout);
  const int cycle = groups ? group : p;
  const int few = 3 * cycle + m % cycle;
  const std::optional<SharedDevices> shared = shared_devices(layout);
  const auto run = [&](int microbatches) -> std::optional<PipelineRun> {
    Scenario s = layout;
    s.strategy.pipeline_parallel_microbatch_group_size = groups ? group : 0;
    s.strategy.pipeline_parallel_microbatches = microbatches;
    s.training.local_batch_size = microbatches * layout.microbatch_size();
    s.training.global_batch_size = s.training.local_batch_size * strategy.data_parallel_degree();
    return run_as_posted(pipeline(s, model, stages), cost, strategy, shared ? &*shared : nullptr);
  };
  const bool at_once = m <= few + cycle || !strategy.pipeline_parallel_schedule_csv.empty();
  std::optional<PipelineRun> whole = run(at_once ? m : few + cycle);
  const std::optional<PipelineRun> shorter = at_once ? whole : run(few);
  if (!whole || !shorter) {
    return Error{ErrorKind::InvalidSpec, "ranks wait for each other in their messages",
                 std::nullopt};
  }
  if (!at_once) {
    const double more = static_cast<double>(m - few - cycle) / cycle;
    whole->makespan += more * (whole->makespan - shorter->makespan);
    // All but those that run every forward pass first hold as many microbatches as they ever will.
    const bool grows = rules_of(strategy.pipeline_parallel_schedule).forwards_first;
    for (const int r : whole->kept.ids()) {
      if (grows) whole->kept[r] += more * (whole->kept[r] - shorter->kept[r]);
    }
  }

  LayoutEstimate estimate;
  std::vector<int> blocks_of(to_size(p), 0);
  for (int s = 0; s < n; ++s) blocks_of[to_size(ranks[to_size(s)])] += blocks[to_size(s)];
  double needed = 0;
  for (int r = 0; r < p; ++r) {
    for (int i = 0; i < kNumStepParts; ++i) {
      const auto part = static_cast<StepPart>(i);
      const double common = costs.memory[costs.kinds() > 2 ? 1 : 0].most(part, 0);
      double bytes = 0, holes = 0, one = 0;  // `one`: what a microbatch keeps on the rank
      int chunks = 0;
      for (int s = 0; s < n; ++s) {
        if (ranks[to_size(s)] != r) continue;
        // What every stage has anew counts once; what an end of the model adds, for its stage.
        bytes += costs.memory[costs.kind(s, n)].most(part, blocks[to_size(s)]) -
                 (chunks++ > 0 ? common : 0);
        holes = std::max(holes, costs.memory[costs.kind(s, n)].holes.at(blocks[to_size(s)]));
        one += cost.stages[s].kept;
      }
      // While microbatches are in flight, gradients of all layers are alive, as in the last
      // backward pass of each stage's probe, which has one microbatch.
      if (part != StepPart::Update) bytes += whole->kept[r];
      if (part == StepPart::LastBackward) bytes -= std::min(whole->kept[r], one);
      if (r == ranks.front() && has_tied_ends(layout)) {
        const bool sharded = part == StepPart::Update && strategy.zero_stage >= 2;
        bytes -= costs.table + (part == StepPart::Forward ? 0
                                : sharded ? costs.table_gradient / strategy.state_shards()
                                          : costs.table_gradient);
      }
      needed = std::max(needed, bytes + holes);
    }
  }
  const int most = *std::max_element(blocks_of.begin(), blocks_of.end());
  estimate.needed = Bytes{static_cast<std::int64_t>(needed)};
  const double beside =
      (costs.around.at(blocks.front()) + costs.update.at(most)) * (shared ? crowd(layout) : 1);
  estimate.step_time = Seconds{whole->makespan + beside};
  const int period = period_of_blocks(layout);
  const bool uneven =
      std::any_of(blocks.begin(), blocks.end(), [&](int count) { return count % period != 0; });
  // Messages slow the computation beside them, and how much of it depends on the schedule.
  const double message = cost.forward.front().busy;
  if (uneven) estimate.unclaimed = "stages that differ in their kinds of blocks";
  if (message > kLongMessage * cost.stages.front().forward.busy) {
    estimate.unclaimed = "messages that take as long as computation";
  }
  if (beside > kMuchBeside * estimate.step_time.v) {
    estimate.unclaimed = "communication of data parallelism that shows";
  }
  return estimate;
}

}  // namespace lockstep
