#include "core/plan/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster/narrow_products.hpp"
#include "core/cost/collective.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/ir/parts.hpp"
#include "core/lower/draft/draft.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/lower/update/update_rule.hpp"
#include "core/memory/device_memory.hpp"
#include "core/plan/estimate/reduced.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {
namespace {

/// Whether a transfer of a layer takes as long as its bytes do. Frameworks run those of sequence
/// parallelism beside products, and gather in fewer bits what products in them read.
bool takes_its_time(const Communication& c, const Scenario& s) {
  const bool other_network =
      s.what_if.ideal_network || s.what_if.bandwidth_factor != 1 || s.what_if.jitter != 0;
  if (other_network) return false;
  if (c.axis != "tp" && c.axis != "etp") return true;
  const FrameworkSpec& framework = s.cluster.framework;
  const bool narrow = narrow_products(s.cluster.device, framework).has_value();
  return !framework.overlaps_products && !(narrow && c.kind == OpKind::AllGather);
}

/// How long a layer's steps keep the compute stream from anything else: from the begin of the first
/// function to the end of the last, with the collectives between that a later function waits for.
///
/// Proof that no run takes less: functions of a rank run one after the other in list order, each
/// for its function_time or longer. A function that reads what a collective writes begins after
/// it, and a collective over "tp", "cp", "ep" or "etp" begins after the function before it that
/// writes its input, and takes its collective_time or longer, unless takes_its_time() says no. What
/// is beside a collective, and collectives before the first and after the last function, are not
/// counted.
double compute_time(const std::vector<LayerStep>& steps, const Scenario& s) {
  double compute = 0, layer = 0;
  std::vector<std::pair<std::string, double>> ready;  // when a communicated tensor is there
  std::map<std::string, double> made;                 // when what is to be communicated is there
  bool begun = false;
  const auto group = [&](const std::string& axis) {
    std::vector<Rank> ranks;
    const StrategySpec& p = s.strategy;
    const int tensor = p.tensor_parallel_degree;
    int n = 1, stride = 1;
    const int heads = p.key_ranks() > 1 ? p.head_ranks() : 1;
    if (axis == "tp") n = tensor;
    if (axis == "cp") {
      n = p.context_parallel_degree;
      stride = tensor;
    }
    if (axis == "cp_heads") {
      n = heads;
      stride = tensor;
    }
    if (axis == "cp_keys") {
      n = p.context_parallel_degree / heads;
      stride = tensor * heads;
    }
    if (axis == "etp") n = p.expert_tensor_parallel_degree;
    if (axis == "ep") {
      n = p.expert_parallel_degree;
      stride =
          p.folds_experts() ? p.expert_tensor_parallel_degree : tensor * p.context_parallel_degree;
    }
    for (int i = 0; i < n; ++i) ranks.push_back(i * stride);
    return ranks;
  };
  for (const LayerStep& step : steps) {
    if (const auto* f = std::get_if<Function>(&step)) {
      for (const Formal& formal : f->formals) {
        for (const auto& [name, at] : ready) {
          if (share_bytes(name, formal.name)) compute = std::max(compute, at);
        }
      }
      compute += function_time(*f, s.cluster.device, s.cluster.framework).v;
      for (const Formal& formal : f->formals) {
        if (formal.access != Access::Read) made[formal.name] = compute;
      }
      begun = true;
      continue;
    }
    const auto& c = std::get<Communication>(step);
    const std::vector<Rank> ranks = group(c.axis);
    if (!takes_its_time(c, s) || !begun || ranks.size() < 2) continue;
    const auto n = static_cast<int>(ranks.size());
    const Bytes counted{std::int64_t{c.rows.count} * c.rows.bytes *
                        (c.kind == OpKind::AllToAllRows ? 1 : n)};
    const Bytes full = is_counted(c.kind) ? counted : std::max(c.in.bytes, c.out.bytes);
    const double time =
        collective_time(c.kind, full, n, group_links(s.cluster, ranks), s.cluster).time.total().v;
    auto from = made.find(c.in.name);  // a part may have been made with the whole tensor
    if (from == made.end()) from = made.find(std::string(part_of(c.in.name).tensor));
    layer = std::max(layer, from == made.end() ? 0 : from->second) + time;
    made[c.out.name] = layer;
    ready.push_back({c.out.name, layer});
  }
  return compute;
}

/// Over how many ranks the states of a rank's experts are sharded.
double expert_shards(const LayoutPoint& point) {
  StrategySpec s;
  s.tensor_parallel_degree = point.tensor;
  s.context_parallel_degree = point.context;
  s.data_parallel_shard_degree = point.shard;
  s.expert_parallel_degree = point.expert;
  s.expert_parallel_folding = point.folding;
  s.expert_tensor_parallel_degree = point.expert_tensor;
  s.zero_stage = 1;
  return s.expert_shards();
}

/// The names of all gradients of a kind of layer, as Draft::steps() takes them.
std::vector<std::string> gradients_of(const Model& model, int kind) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) {
    if (layer.kind != kind) continue;
    for (const LayerUnit& unit : layer.units) names.push_back("gw" + unit.suffix);
    break;
  }
  return names;
}

/// Whether every rank runs its passes as 1F1B does: some forward passes, then one of each in turn.
bool in_turn(const ScheduleRules& rules) { return rules.one_by_one && rules.drains(); }

/// Whether a backward pass of the schedule is one action, which the stage before waits for.
bool whole_backward(const ScheduleRules& rules) {
  return rules.backward == Backward::Whole && rules.drains();
}

/// Whether the generator of a schedule is a rule that does not depend on times.
bool by_rule(const ScheduleRules& rules) {
  return !rules.asks_times && rules.backward != Backward::Paired && rules.drains();
}

}  // namespace

/// Times and sizes of a layer, or of several, on a rank.
struct LayoutBounds::LayerCost {
  double forward = 0, recompute = 0, backward = 0;  // seconds of one microbatch
  double split = 0;            // of a backward pass that may be split into I and W
  double kept = 0;             // bytes from forward to backward
  double narrowed = 0;         // of these, what a framework does not keep that narrows products
  double elements = 0;         // parameters before data parallelism shards them
  double expert_elements = 0;  // those of experts, not among `elements`
  LayerCost& operator+=(const LayerCost& o) {
    forward += o.forward;
    recompute += o.recompute;
    backward += o.backward;
    split += o.split;
    kept += o.kept;
    narrowed += o.narrowed;
    elements += o.elements;
    expert_elements += o.expert_elements;
    return *this;
  }
  double pass(bool whole) const { return forward + recompute + (whole ? backward : split); }
};

struct LayoutBounds::Shape {
  Model model;
  int balance = -1;             // which of `balances_` its layers have
  std::vector<LayerCost> upto;  // by layer: the sum of those before it; one more at the end
};

/// How many passes of chunks a rank keeps at once: no fewer in all, and at a moment when it has
/// gradients of all its chunks; and no more, with those whose W is to come.
struct LayoutBounds::InFlight {
  double passes = 0, beside_gradients = 0, most = 0;
};

struct LayoutBounds::StageCosts {
  IndexVector<Stage, LayerCost> stages;
  std::vector<int> rank_of_stage;
};

LayoutBounds::LayoutBounds(const Scenario& base) : base_(base) {}
LayoutBounds::~LayoutBounds() = default;

std::shared_ptr<const LayoutBounds::Shape> LayoutBounds::shape(const LayoutPoint& point) {
  const ShapeKey key{point.tensor,
                     point.context,
                     point.expert,
                     point.folding,
                     point.expert_tensor,
                     point.microbatch,
                     static_cast<int>(point.recomputation)};
  {
    const std::lock_guard lock(mutex_);
    const auto it = shapes_.find(key);
    if (it != shapes_.end()) return it->second;
  }
  std::shared_ptr<const Shape> made = make_shape(point);
  // Stages depend on the ratios of layers only, which most shapes share.
  std::vector<double> ratios;
  for (const Layer& layer : made->model.layers) {
    ratios.push_back(std::round(layer.balance / made->model.layers[1].balance * 1e9));
  }
  auto known = std::make_shared<Shape>(*made);
  const std::lock_guard lock(mutex_);
  known->balance = balances_.try_emplace(ratios, static_cast<int>(balances_.size())).first->second;
  return shapes_.try_emplace(key, std::move(known)).first->second;
}

/// The layers of a rank do not depend on the pipeline or on how states are shared.
std::shared_ptr<const LayoutBounds::Shape> LayoutBounds::make_shape(
    const LayoutPoint& point) const {
  Scenario s = base_;
  StrategySpec& p = s.strategy;
  p = {};
  divide_tensors(p, point, s.model, base_.strategy.tensor_parallel_chunks);
  p.context_parallel_degree = point.context;
  p.context_parallel_method = base_.strategy.context_parallel_method;
  const int heads = base_.strategy.context_parallel_ulysses_degree;
  if (point.context % heads == 0) p.context_parallel_ulysses_degree = heads;
  divide_experts(p, point);
  p.data_parallel_shard_degree = point.expert;
  s.training.local_batch_size = point.microbatch;
  s.training.global_batch_size = point.microbatch * point.expert;
  s.activation_checkpoint = checkpoint_of(point.recomputation);
  const Scenario small = one_period(s);
  Draft draft(small);
  repeat_blocks(draft.model, s);
  const auto narrow = narrow_products(s.cluster.device, s.cluster.framework);
  std::vector<LayerCost> kinds;
  for (int k = 0; k < static_cast<int>(draft.model.kinds.size()); ++k) {
    LayerCost cost;
    const std::vector<LayerStep> forward = draft.steps(k, Phase::F, {});
    cost.forward = compute_time(forward, s);
    cost.recompute = compute_time(draft.steps(k, Phase::R, {}), s);
    // The first microbatch may set a table's gradient to zero, to which the others only add; and of
    // kernels that compute both gradients, I and W have two, and of their sums they have parts.
    const std::vector<std::string> all = gradients_of(draft.model, k);
    for (const std::vector<std::string>& added : {std::vector<std::string>(), all}) {
      const auto time = [&](Phase phase) { return compute_time(draft.steps(k, phase, added), s); };
      const double whole = time(Phase::B);
      const double split = std::min(whole, time(Phase::I) + time(Phase::W));
      cost.backward = added.empty() ? whole : std::min(cost.backward, whole);
      cost.split = added.empty() ? split : std::min(cost.split, split);
    }
    cost.kept = kept_bytes(forward);
    for (const LayerStep& step : forward) {
      const auto* f = std::get_if<Function>(&step);
      if (narrow && f) cost.narrowed += std::max(0.0, saved_by_narrow_inputs(*f, *narrow));
    }
    kinds.push_back(cost);
  }
  Shape shape;
  shape.upto.emplace_back();
  bool tied = false;  // the unit that the first and the last layer may share is counted
  std::int64_t input = 0;
  for (const Layer& layer : draft.model.layers) {
    LayerCost cost = kinds[to_size(layer.kind)];
    // A layer that is computed again from its begin keeps its input.
    if (cost.kept == 0) cost.kept = static_cast<double>(input);
    input = layer.output_bytes;
    for (const LayerUnit& used : layer.units) {
      if (used.unit == draft.model.tied_unit && std::exchange(tied, true)) continue;
      const UnitLayout& unit = draft.model.units[used.unit];
      // Without the states of others, it is left out of what a rank at least has.
      if (unit.frozen || !unit.has_gradient()) continue;
      (divides_experts(unit.split_axis) ? cost.expert_elements : cost.elements) +=
          static_cast<double>(unit.elements);
    }
    cost += shape.upto.back();
    shape.upto.push_back(cost);
  }
  shape.model = std::move(draft.model);
  return std::make_shared<const Shape>(std::move(shape));
}

std::vector<int> LayoutBounds::ends_of_stages(const Shape& shape, int stages) {
  const std::pair<int, int> key{shape.balance, stages};
  {
    const std::lock_guard lock(mutex_);
    const auto it = ends_.find(key);
    if (it != ends_.end()) return it->second;
  }
  StrategySpec strategy;
  strategy.pipeline_parallel_degree = stages;
  std::vector<int> ends;
  for (const StageLayers& stage : partition(shape.model, base_.model, strategy)) {
    ends.push_back(stage.last);
  }
  const std::lock_guard lock(mutex_);
  return ends_.try_emplace(key, std::move(ends)).first->second;
}

/// Parameters and states of the optimizer, in bytes.
double LayoutBounds::states(double elements, double experts, const LayoutPoint& point) const {
  const TrainingSpec& t = base_.training;
  const auto size = [](DType type) { return static_cast<double>(size_of(type)); };
  if (point.offload == Offload::Parameters) return 0;
  // Rows and columns of Adafactor are few beside the rest: a lower bound may leave them out.
  const OptimizerSpec& optimizer = base_.optimizer;
  const auto moments = static_cast<double>(rule_of(optimizer, true).keeps(optimizer).size());
  // Some frameworks keep less than a master and two moments in float32 (core/memory).
  const double fewer = t.keeps_master() && optimizer.is_adam()
                           ? std::max(0.0, 12 - base_.cluster.framework.optimizer_bytes)
                           : 0;
  const double each = point.offload != Offload::None
                          ? 0
                          : std::max(0.0, moments * optimizer.state_bytes(t.dtype) +
                                              (t.keeps_master() ? size(t.dtype) : 0) - fewer);
  const auto bytes = [&](double count, double parts) {
    return count * (size(t.param_dtype()) / (point.zero == 3 ? parts : 1) + each / parts);
  };
  const double shards = point.zero >= 1 ? point.shard * point.context : 1;
  return bytes(elements, shards) + bytes(experts, point.zero >= 1 ? expert_shards(point) : 1);
}

/// Gradients of a rank, in bytes, divided into as many parts as shards if `sharded`.
double LayoutBounds::gradients(double elements, double experts, const LayoutPoint& point,
                               bool sharded) const {
  if (point.offload != Offload::None) return 0;
  const double shards = sharded ? point.shard * point.context : 1;
  return static_cast<double>(size_of(base_.training.reduce_dtype())) *
         (elements / shards + experts / (sharded ? expert_shards(point) : 1));
}

/// Parameters that stay gathered while microbatches are in flight, in bytes.
double LayoutBounds::gathered(double elements, double experts, const LayoutPoint& point) const {
  const StrategySpec& s = base_.strategy;
  const double shards = point.shard * point.context;
  if (point.zero < 3 || point.pipeline == 1 || shards == 1 || point.offload != Offload::None ||
      s.fsdp_reshard_after_forward == ReshardAfterForward::Always ||
      base_.cluster.framework.parameter_part.v > 0) {
    return 0;
  }
  return static_cast<double>(size_of(base_.training.param_dtype())) *
         (elements + (expert_shards(point) > 1 ? experts : 0));
}

/// What a process keeps beside its tensors, in bytes.
double LayoutBounds::beside(const LayoutPoint& point) const {
  std::vector<int> groups;
  if (point.tensor > 1) groups.push_back(point.tensor);
  if (point.pipeline > 1) groups.push_back(point.pipeline);
  if (point.replicate * point.shard * point.context > 1) groups.push_back(2);
  return static_cast<double>(least_beside_tensors(base_.cluster, ranks_to_divide(base_), groups).v);
}

std::vector<LayoutBounds::InFlight> LayoutBounds::in_flight(const LayoutPoint& point,
                                                            int microbatches) {
  const int p = point.pipeline, v = point.chunks;
  const double m = microbatches;
  if (p == 1) return {{1, m > 1 ? 1.0 : 0.0, 1}};
  std::vector<InFlight> found;
  const ScheduleRules& rules = rules_of(point.schedule);
  if (in_turn(rules)) {
    const double group = v > 1 ? interleave_group(0, p, microbatches) : 1;
    for (int r = 0; r < p; ++r) {
      const double passes = v > 1 ? 2 * (p - 1 - r) + (v - 1) * group + 1 : p - r;
      const bool again = passes + (v - 1) * group < m * v;
      const double kept = std::min(m * v, passes);
      found.push_back({kept, again ? passes : 0, kept});
    }
    return found;
  }
  if (!by_rule(rules)) return std::vector<InFlight>(to_size(p), InFlight{1, 0, m * v});
  // A rank has reached what it keeps at most long before so many microbatches have passed.
  const int few = std::min(microbatches, 4 * p);
  const std::array<int, 4> key{static_cast<int>(point.schedule), p, v, few};
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = in_flight_.try_emplace(key);
  if (!is_new) return it->second;
  PipelineShape shape;
  shape.p = p;
  shape.v = v;
  shape.m = few;
  shape.group = interleave_group(0, p, few);
  for (const Actions& actions : generate(rules, shape).actions) {
    InFlight most;
    double kept = 0, alive = 0;
    std::set<Stage> with_gradients;
    for (const Action& a : actions) {
      if (a.phase == Phase::F) ++kept;
      if (a.phase == Phase::F) ++alive;
      if (a.phase == Phase::B || a.phase == Phase::I) --kept;
      if (a.phase == Phase::B || a.phase == Phase::W) --alive;
      if (a.phase == Phase::B || a.phase == Phase::W) with_gradients.insert(a.stage);
      most.passes = std::max(most.passes, kept);
      most.most = std::max(most.most, alive);
      if (static_cast<int>(with_gradients.size()) == v) {
        most.beside_gradients = std::max(most.beside_gradients, kept);
      }
    }
    // Where all forward passes come first, more microbatches are in flight than these few.
    if (rules.forwards_first) most.most = std::numeric_limits<double>::infinity();
    it->second.push_back(most);
  }
  return it->second;
}

// Time. Functions of a rank run one after the other. Rank r of a pipeline, which holds the stages
// S(r), computes for m · Σ_{s ∈ S(r)} (F_s + R_s + B_s) or longer, for m microbatches, their
// recomputation R among them. It cannot begin before the first microbatch has passed the stages
// before its first, which is stage r whichever way chunks are placed (the first p stages lie on
// ranks 0 … p - 1): Σ_{s<r} F_s. Where backward passes are not split, its last action is one, of a
// stage s ≥ r, whose gradient then passes stages s - 1 … 0, and so stages r - 1 … 0: Σ_{s<r} B_s,
// without the recomputation, which needs no gradient and may have been done before. Where they are
// split, the rank may end with W passes, which nobody waits for. These three parts of the step do
// not overlap. The bound is the largest of their sums.
//
// Of schedules with two copies of the model, or several updates in a step, and of a vocabulary that
// ranks share, only this holds: the p ranks compute m · Σ_s (F_s + R_s + B_s) together, and the
// busiest of them no less than the mean.
LayoutBound LayoutBounds::of(const LayoutPoint& point) {
  const std::shared_ptr<const Shape> shape = this->shape(point);
  const std::vector<LayerCost>& upto = shape->upto;
  const int p = point.pipeline, v = point.chunks, data = point.replicate * point.shard;
  const int m = base_.global_batch_size() / (point.microbatch * data);
  const ScheduleRules& rules = rules_of(point.schedule);
  const bool plain = rules.copies == 1 && rules.versions == WeightVersions::One &&
                     !base_.strategy.vocabulary_parallel_pipeline;
  const bool whole = whole_backward(rules);
  LayoutBound bound;
  StageCosts costs;
  if (plain) {
    int first = 0;
    for (const int end : ends_of_stages(*shape, p * v)) {
      const LayerCost &a = upto[to_size(first)], &b = upto[to_size(end)];
      costs.stages.push_back({b.forward - a.forward, b.recompute - a.recompute,
                              b.backward - a.backward, b.split - a.split, b.kept - a.kept,
                              b.narrowed - a.narrowed, b.elements - a.elements,
                              b.expert_elements - a.expert_elements});
      first = end;
    }
    costs.rank_of_stage = place_stages(rules.placement, p, v);
    IndexVector<int, double> load(to_size(p), 0);
    for (const Stage s : costs.stages.ids()) {
      load[costs.rank_of_stage[to_size(s)]] += m * costs.stages[s].pass(whole);
    }
    double wait = 0;
    for (int r = 0; r < p; ++r) {
      if (load[r] + wait > bound.time.v) {
        bound = {Seconds{load[r] + wait}, Seconds{load[r]}, Seconds{wait}, {}};
      }
      wait += costs.stages[r].forward + (whole ? costs.stages[r].backward : 0);
    }
  } else {
    bound.compute = bound.time = Seconds{m * upto.back().pass(whole) / p};
    const LayerCost& all = upto.back();
    costs.stages.push_back(
        {0, 0, 0, 0, all.kept / p, all.narrowed, all.elements / p, all.expert_elements / p});
    costs.rank_of_stage = {0};
  }
  if (base_.what_if.jitter != 0) bound.time = bound.compute = bound.bubble = {};
  bound.needed =
      needed(costs, point, plain ? in_flight(point, m) : std::vector<InFlight>{{1, 0, 1.0 * m}});
  return bound;
}

// Memory. A rank keeps the parameters and the optimizer's states of its layers all the time, and
// when the update begins, gradients of all of them, or their shards. When the last forward pass of
// the first microbatch on a rank has ended, all its chunks' activations of it are kept, because
// backward passes begin at the last stage. At its fullest moment a rank keeps as many passes as the
// order of its actions says (in_flight()), each of which keeps no less than the chunk that keeps
// least; and after it has computed gradients of all its chunks, these stay until the update, beside
// as many passes as it comes to keep from then on. Ranks of schedules in turn (Narayanan et al.
// 2021, section 2.2) keep 2(p - 1 - r) + (v - 1) · group + 1 passes before every backward pass
// between warm-up and cool-down, of which the number (v - 1) · group is the first of the first
// chunk. Parameters that are gathered and not resharded are there whenever all chunks have run.
Bytes LayoutBounds::needed(const StageCosts& costs, const LayoutPoint& point,
                           const std::vector<InFlight>& in_flight) const {
  const FrameworkSpec& framework = base_.cluster.framework;
  const double lost = 1 + (framework.caching_allocator ? framework.fragments : 0);
  // Frameworks that move parameters one by one have neither units nor their gradients whole.
  const bool one_by_one = framework.parameter_part.v > 0;
  const AccumulateShards accumulate = base_.strategy.accumulate_sharded_gradients;
  const bool sharded_sums =
      point.zero >= 2 && (accumulate == AccumulateShards::Always ||
                          (accumulate == AccumulateShards::Default && point.pipeline == 1));
  double most = 0;
  for (std::size_t r = 0; r < in_flight.size(); ++r) {
    LayerCost own;
    double least = std::numeric_limits<double>::infinity(), narrowed = 0;
    for (const Stage s : costs.stages.ids()) {
      if (costs.rank_of_stage[to_size(s)] != static_cast<int>(r)) continue;
      own += costs.stages[s];
      least = std::min(least, costs.stages[s].kept);
      narrowed = std::max(narrowed, costs.stages[s].narrowed);
    }
    const double elements = own.elements, experts = own.expert_elements;
    const double all = gathered(elements, experts, point);
    double beside_states = std::max(gradients(elements, experts, point, point.zero >= 2),
                                    all + lost * std::max(own.kept, in_flight[r].passes * least));
    if (in_flight[r].beside_gradients > 0 && !one_by_one) {
      beside_states =
          std::max(beside_states, all + gradients(elements, experts, point, sharded_sums) +
                                      lost * in_flight[r].beside_gradients * least);
    }
    // Wherever the rank is fullest, no more passes than these are narrower than what they keep.
    if (narrowed > 0) beside_states -= in_flight[r].most * narrowed;
    most = std::max(most, states(elements, experts, point) + std::max(0.0, beside_states));
  }
  return Bytes{static_cast<std::int64_t>(most + beside(point))};
}

}  // namespace lockstep
