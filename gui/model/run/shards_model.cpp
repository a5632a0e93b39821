#include "gui/model/run/shards_model.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {
namespace {

/// The number of elements before each parameter, in the order of the program. The last entry is the
/// number of all elements.
std::vector<std::int64_t> starts_of(const Program& program) {
  IndexVector<ParameterId, std::int64_t> starts = {0};
  for (const Parameter& parameter : program.parameters) {
    starts.push_back(starts.back() + parameter.elements());
  }
  return starts;
}

/// Which samples and tokens a rank reads.
void place_data(const Program& program, RankStates& states) {
  const std::vector<int>& over = program.input.samples.over;
  const auto parts = static_cast<double>(size_over(program.mesh, over));
  const double at = position_over(program.mesh, over, states.rank);
  states.batch = {at / parts, (at + 1) / parts};
  std::vector<int> context;
  for (const char* axis : {"cp", "cp_heads"}) {
    if (program.mesh.index_of(axis) >= 0) context.push_back(program.mesh.index_of(axis));
  }
  if (context.empty()) return;
  const auto rows = static_cast<double>(size_over(program.mesh, context));
  const double row = position_over(program.mesh, context, states.rank);
  states.tokens = {row / rows, (row + 1) / rows};
}

/// What a transfer is for, by its stream and by what it does to whom.
std::string purpose_of(const Program& program, const Role& role, const Op& op) {
  if (is_p2p(op.kind)) {
    return op.phase == Phase::F ? "activations between stages" : "gradients between stages";
  }
  const std::string ranks = std::to_string(group_size(program.mesh, program.group(op.group())));
  const bool sum = op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter;
  const BufferId first = role.args_of(op).front();
  if (op.phase == Phase::O && role.buffer(role.root(first)).kind == BufferKind::Workspace) {
    return "directions of " + ranks + " ranks";
  }
  if (op.stream == Stream::Layer || op.stream == Stream::Stages) {
    if (sum) return "partial sums of " + ranks + " ranks";
    if (op.kind == OpKind::Rotate) return "keys passed on by " + ranks + " ranks";
    return is_exchange(op.kind) ? "tokens exchanged by " + ranks + " ranks"
                                : "rows of " + ranks + " ranks";
  }
  if (op.phase == Phase::O) return sum ? "norms of " + ranks + " ranks" : "updated parameters";
  return sum ? "gradients of " + ranks + " ranks" : "parameters";
}

}  // namespace

ShardsModel make_shards_model(RunPtr run, const Cancelled& cancelled) {
  ShardsModel model;
  model.run = std::move(run);
  if (!model.run || !model.run->program || model.run->steps.empty()) return model;
  const Program& program = *model.run->program;
  const StepGraph& step = model.run->steps.front().graph;
  const IndexVector<ParameterId, std::int64_t> starts = starts_of(program);
  model.parameters = starts.back();
  if (model.parameters == 0) return model;  // the synthetic model has no parameters
  const auto whole = static_cast<double>(model.parameters);
  // Ranks that do the same at the same time still keep different parts of the states.
  const IndexVector<Rank, Rank>& same_as = model.run->trace.same_as;
  std::vector<Rank> ranks = step.ranks();
  for (const Rank rank : ranks) {
    if (cancelled) return model;
    model.lives[rank] = buffer_lives(step, rank);
    model.flows.emplace(rank, DataFlow(step, rank));
  }
  if (same_as.size() <= ShardsModel::kMostRanks) {
    ranks.resize(same_as.size());
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  for (const Rank rank : ranks) {
    if (cancelled) return model;
    RankStates states;
    states.rank = rank;
    states.acts_as = same_as[rank];
    place_data(program, states);
    const Role& role = program.role_of(rank);
    IndexVector<ParameterId, std::int64_t> next = starts;  // behind what is drawn
    for (const UnitShard& shard : shards_of(program, rank).units) {
      const Unit& unit = role.units[shard.unit];
      const ParameterId first = unit.parameters.front().parameter;
      const double start = static_cast<double>(next[first]) / whole;
      next[first] += shard.whole;  // another unit may hold other sections of the parameter
      // If tensor parallelism splits a unit, the parts are drawn one after the other. In truth the
      // split goes through every matrix, which a line cannot show.
      const double length = static_cast<double>(shard.whole) / whole / shard.parts;
      const double begin = start + length * shard.part;
      const int layer = role.buffer(unit.param()).layer;
      states.units.push_back({begin, begin + length, layer});
      const auto own = [&](StateBar kind, const ElementRange& range) {
        if (range.size() <= 0 || shard.elements == 0) return;
        const double scale = length / static_cast<double>(shard.elements);
        states.owned[kind].push_back({begin + static_cast<double>(range.begin) * scale,
                                      begin + static_cast<double>(range.end) * scale, layer});
      };
      own(StateBar::Parameters, shard.parameters);
      own(StateBar::Gradients, shard.gradients);
      own(StateBar::Optimizer, shard.optimizer);
    }
    model.ranks.push_back(std::move(states));
  }
  return model;
}

std::vector<ShardsModel::Gathered> ShardsModel::gathered(std::size_t rank, SimTime t) const {
  const RankStates& states = ranks[rank];
  const Role& role = run->program->role_of(states.rank);
  std::vector<Gathered> out;
  for (const GatheredUnit& unit :
       gathered_at(run->steps.front().graph, states.acts_as, lives.at(states.acts_as), t)) {
    out.push_back({states.units[unit.unit], t < unit.ready, role.units[unit.unit].name});
  }
  return out;
}

std::optional<ShardsModel::Moving> ShardsModel::moving(std::size_t rank,
                                                       const std::vector<Flight>& flights,
                                                       SimTime t, SimTime linger) const {
  const Flight* last = nullptr;
  for (const Flight& flight : flights) {
    if (std::find(flight.ranks.begin(), flight.ranks.end(), ranks[rank].rank) ==
        flight.ranks.end()) {
      continue;
    }
    if (!last || flight.begin >= last->begin) last = &flight;
  }
  if (!last) return std::nullopt;
  const Span& span = run->steps.front().graph[last->span];
  const Role& role = run->program->role_of(span.rank);
  const Op& op = role.op(span.op);
  Moving moving{purpose_of(*run->program, role, op), 1, run->lanes.look(span)};
  const Unit* largest = nullptr;  // of the layer
  for (const Unit& unit : role.units) {
    const bool of_layer = op.layer >= 0 && role.buffer(unit.param()).layer == op.layer;
    if (of_layer && (!largest || unit.elements > largest->elements)) largest = &unit;
  }
  if (largest) {  // by its layer: how the unit lies on the ranks is another matter
    moving.words += ": " + largest->name.substr(0, largest->name.find(".replicated"));
  }
  const auto seen = static_cast<double>(std::max(last->end - last->begin, linger).count());
  if (seen > 0) moving.done = std::min(static_cast<double>((t - last->begin).count()) / seen, 1.0);
  return moving;
}

}  // namespace lockstep::gui
