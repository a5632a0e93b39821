#include "core/plan/bounds.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/cost/collective.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/lower/draft/draft.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {
namespace {

/// How long a layer's steps keep the compute stream from anything else: from the begin of the first
/// function to the end of the last, with the collectives between that a later function waits for.
///
/// Proof that no run takes less: functions of a rank run one after the other in list order, each
/// for its function_time or longer. A function that reads what a collective writes begins after
/// it, and a collective over "tp" or "cp" begins after the function before it that writes its
/// input, and takes its collective_time or longer. What is beside a collective, and collectives
/// before the first and after the last function, are not counted.
double compute_time(const std::vector<LayerStep>& steps, const Scenario& s, bool collectives) {
  double compute = 0, layer = 0;
  std::vector<std::pair<std::string, double>> ready;  // when a communicated tensor is there
  bool begun = false;
  const auto group = [&](const std::string& axis) {
    std::vector<Rank> ranks;
    const int tensor = s.strategy.tensor_parallel_degree;
    const int n = axis == "tp" ? tensor : axis == "cp" ? s.strategy.context_parallel_degree : 1;
    for (int i = 0; i < n; ++i) ranks.push_back(axis == "tp" ? i : i * tensor);
    return ranks;
  };
  for (const LayerStep& step : steps) {
    if (const auto* f = std::get_if<Function>(&step)) {
      for (const Formal& formal : f->formals) {
        for (const auto& [name, at] : ready) {
          if (name == formal.name) compute = std::max(compute, at);
        }
      }
      compute += function_time(*f, s.cluster.device, s.cluster.framework).v;
      begun = true;
      continue;
    }
    const auto& c = std::get<Communication>(step);
    const std::vector<Rank> ranks = group(c.axis);
    if (!collectives || !begun || ranks.size() < 2) continue;
    const Bytes full = std::max(c.in.bytes, c.out.bytes);
    const auto n = static_cast<int>(ranks.size());
    const double time =
        collective_time(c.kind, full, n, group_links(s.cluster, ranks), s.cluster).time.total().v;
    layer = std::max(layer, compute) + time;
    ready.push_back({c.out.name, layer});
  }
  return compute;
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

}  // namespace

std::shared_ptr<const LayoutBounds::Shape> LayoutBounds::shape(const LayoutPoint& point) {
  const Key key{point.tensor,  point.context,    point.expert,
                point.folding, point.microbatch, static_cast<int>(point.recomputation)};
  {
    const std::lock_guard lock(mutex_);
    const auto it = shapes_.find(key);
    if (it != shapes_.end()) return it->second;
  }
  // The layers of a rank do not depend on the pipeline or on how states are shared.
  Shape shape;
  Scenario s = base_;
  StrategySpec& p = s.strategy;
  p = {};
  p.tensor_parallel_degree = point.tensor;
  p.enable_sequence_parallel = point.tensor > 1;
  p.context_parallel_degree = point.context;
  p.context_parallel_method = base_.strategy.context_parallel_method;
  p.expert_parallel_degree = point.expert;
  p.expert_parallel_folding = point.folding;
  p.data_parallel_shard_degree = point.expert;
  s.training.local_batch_size = point.microbatch;
  s.training.global_batch_size = point.microbatch * point.expert;
  s.activation_checkpoint = checkpoint_of(point.recomputation);
  Draft draft(s);
  // Transfers of layers are not hidden, and take their whole time, except in frameworks that run
  // them beside products or in 8 bits.
  const FrameworkSpec& framework = s.cluster.framework;
  const bool collectives = !framework.overlaps_products && framework.fp8 == Fp8Recipe::None &&
                           !s.what_if.ideal_network && s.what_if.bandwidth_factor == 1 &&
                           s.what_if.jitter == 0;
  std::vector<LayerCost> kinds;
  for (int k = 0; k < static_cast<int>(draft.model.kinds.size()); ++k) {
    LayerCost cost;
    const std::vector<LayerStep> forward = draft.steps(k, Phase::F, {});
    cost.forward = compute_time(forward, s, collectives);
    cost.backward = compute_time(draft.steps(k, Phase::R, {}), s, collectives) +
                    compute_time(draft.steps(k, Phase::B, {}), s, collectives);
    cost.kept = kept_bytes(forward);
    kinds.push_back(cost);
  }
  std::vector<LayerCost> layers;
  for (const Layer& layer : draft.model.layers) {
    LayerCost cost = kinds[to_size(layer.kind)];
    for (const LayerUnit& used : layer.units) {
      const UnitLayout& unit = draft.model.units[used.unit];
      cost.elements += static_cast<double>(unit.elements);
      if (unit.split_axis == "ep") cost.expert_elements += static_cast<double>(unit.elements);
    }
    layers.push_back(cost);
  }
  shape.first = layers.front();
  shape.last = layers.back();
  shape.least_kept = layers[1].kept;
  const auto blocks = static_cast<double>(layers.size() - 2);
  for (std::size_t l = 1; l + 1 < layers.size(); ++l) {
    shape.block.forward += layers[l].forward / blocks;
    shape.block.backward += layers[l].backward / blocks;
    shape.block.elements += layers[l].elements / blocks;
    shape.block.expert_elements += layers[l].expert_elements / blocks;
    shape.least_kept = std::min(shape.least_kept, layers[l].kept);
  }
  shape.valid = true;
  const std::lock_guard lock(mutex_);
  return shapes_.try_emplace(key, std::make_shared<const Shape>(shape)).first->second;
}

// Time. Let a microbatch take w on all ranks together, in the functions of its layers and the
// collectives between them. The ranks of a pipeline of p compute m·w in all, and no rank computes
// two things at once, so that one of them computes for m·w/p or longer. It starts no earlier than
// the first microbatch has passed the stages before its first, and the step ends no earlier than
// the last microbatch's gradient has passed them back. Of the p ranks, every one has r stages
// before its own first stage for a different r in 0 … p - 1, whichever way chunks are placed
// (rank_of_stage is a permutation on the first p stages). Summed over ranks, busy and waiting time
// are at least m·w + Σ_r r·(the least stage), and the longest rank's is at least the mean. The
// least stage has floor(blocks / stages) blocks where layers divide evenly; otherwise one block
// less is assumed, and none with uneven ends. W passes may fill the wait at the end, where backward
// passes are split, so that there only the forward part counts.
//
// Memory. States are exact for the mean rank: every rank keeps its blocks' parameters, gradients
// and optimizer states, and the fullest keeps no less than the mean. Gradients of all of them are
// there when the update begins, but perhaps not before. When the last forward pass of
// the first microbatch on a rank has ended, all chunks' activations of it are kept, because
// backward passes begin at the last stage; so the mean rank keeps those of blocks / p blocks. The
// first rank begins its first backward pass after its warmup, which is a rule of the schedule: p
// forward passes of 1F1B and ZB-H1, and 2(p - 1) + (v - 1)p + 1 of chunks if they are interleaved
// (Narayanan et al. 2021, section 2.2), as far as there are microbatches. The balance of stages
// gives it no fewer blocks than an even division, rounded down, because the output layer is what
// other stages must make up for.
LayoutBound LayoutBounds::of(const LayoutPoint& point) {
  const std::shared_ptr<const Shape> known = shape(point);
  const Shape& s = *known;
  const auto layers = static_cast<double>(base_.model.layers);
  const double p = point.pipeline;
  const int data = point.replicate * point.shard;
  const double m = static_cast<double>(base_.global_batch_size()) / (point.microbatch * data);
  LayoutBound bound;
  const double pass = s.first.forward + s.first.backward + s.last.forward + s.last.backward +
                      layers * (s.block.forward + s.block.backward);
  bound.compute = Seconds{m * pass / p};
  const int stages = point.pipeline * point.chunks;
  const auto whole = static_cast<int>(base_.model.layers);
  const int least = whole / stages - 1;
  const bool split = point.schedule != PipelineSchedule::OneFOneB &&
                     point.schedule != PipelineSchedule::Interleaved1F1B &&
                     point.schedule != PipelineSchedule::GPipe &&
                     point.schedule != PipelineSchedule::LoopedBFS;
  const double stage = std::max(0, least) * (s.block.forward + (split ? 0 : s.block.backward));
  bound.bubble = Seconds{point.pipeline > 1 ? (p - 1) / 2 * stage : 0};
  bound.time = bound.compute + bound.bubble;

  const TrainingSpec& t = base_.training;
  const auto size = [](DType type) { return static_cast<double>(size_of(type)); };
  const double moments = base_.optimizer.name == OptimizerKind::AdamW ? 2 : 1;
  const double states = (moments + (t.keeps_master() ? 1 : 0)) * size(t.dtype);
  const bool on_host = base_.strategy.offload != Offload::None;
  const double elements = layers * (s.block.elements - s.block.expert_elements) / p;
  const double experts = layers * s.block.expert_elements / p;
  const double shards = point.zero >= 1 ? point.shard * point.context : 1;
  const double expert_shards = std::max(1.0, shards / std::max(1, point.expert));
  const auto parameters = [&](double count, double parts) {
    return count *
           (size(t.param_dtype()) / (point.zero == 3 ? parts : 1) + (on_host ? 0 : states / parts));
  };
  const auto gradients = [&](double count, double parts) {
    return on_host ? 0 : count * size(t.reduce_dtype()) / (point.zero >= 2 ? parts : 1);
  };
  double bytes = base_.strategy.offload == Offload::Parameters
                     ? 0
                     : parameters(elements, shards) + parameters(experts, expert_shards);
  double first_rank = 0;  // blocks in flight on the first rank, each microbatch's counted
  if (point.schedule == PipelineSchedule::OneFOneB || point.schedule == PipelineSchedule::ZbH1) {
    first_rank = std::min(m, p) * (whole / stages);
  } else if (point.schedule == PipelineSchedule::Interleaved1F1B && m >= p) {
    const double v = point.chunks;
    first_rank = std::min(m * v, 2 * (p - 1) + (v - 1) * p + 1) * (whole / stages);
  }
  const bool eight_bits = base_.cluster.framework.fp8 != Fp8Recipe::None;
  bytes += std::max(gradients(elements, shards) + gradients(experts, expert_shards),
                    eight_bits ? 0 : std::max(layers / p, first_rank) * s.least_kept);
  bound.needed = Bytes{static_cast<std::int64_t>(bytes)};
  return bound;
}

}  // namespace lockstep
