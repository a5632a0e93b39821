// unshard: gathers parameters that a rank keeps in shards ahead of their use, and drops the copies
// after it (Zhao et al. 2023, FSDP; ZeRO stage 3), in the order of FSDP2. Parameters that the last
// step updated in pieces, without gathering them (overlap_param_gather), are gathered ahead of
// their first use. With quantized weights, what is gathered are codes (Wang et al. 2023, ZeRO++).
#include "core/schedule/unshard.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/codes.hpp"
#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// A stretch of the step during which one gathered copy of a unit is used.
struct Episode {
  std::size_t unit = 0;
  std::size_t first = 0;            // its first op
  std::vector<std::uint32_t> args;  // positions in Role::args that read the copy
};

/// For each op, how often its stage has been gathered so far.
std::vector<int> unshards_of_ops(const Role& role, const std::vector<Action>& actions,
                                 int most_active) {
  const std::vector<int> times = unshards(actions, most_active);
  std::map<std::tuple<Phase, Stage, Microbatch>, int> of_action;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    of_action[{action.phase, action.stage, action.microbatch}] = times[i];
    if (action.phase == Phase::B || action.phase == Phase::I) {  // a recomputation comes before it
      of_action[{Phase::R, action.stage, action.microbatch}] = times[i];
    }
  }
  std::vector<int> of_op;
  of_op.reserve(role.ops.size());
  const Op* before = nullptr;  // most ops are of the action of the op before
  for (const Op& op : role.ops) {
    const bool same = before != nullptr && before->phase == op.phase && before->stage == op.stage &&
                      before->microbatch == op.microbatch;
    of_op.push_back(same ? of_op.back()
                         : of_action[{Phase{op.phase}, op.stage, Microbatch{op.microbatch}}]);
    before = &op;
  }
  return of_op;
}

/// The episodes of all units. A unit that is kept gathered has one for each time that its stage is
/// gathered. Another unit has a new one whenever a unit of another layer that is not kept was used
/// in between, because its copy would have been dropped then.
std::vector<Episode> episodes(const DraftRole& out, const std::vector<bool>& keep,
                              const std::vector<int>& times) {
  const Role& role = out.role;
  IndexVector<BufferId, int> unit_of(role.buffers.size(), -1);
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    unit_of[role.units[u].param()] = static_cast<int>(u);
  }
  std::vector<Episode> found;
  std::vector<std::size_t> current(role.units.size(), kNever);
  int latest = -1;  // the layer of the last use of a unit that is not kept
  int visit = 0;    // counts changes of `latest`
  std::vector<int> visit_of(role.units.size(), 0);
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    for (std::uint32_t a = op.args_begin; a < op.args_begin + op.args_count; ++a) {
      const int u = unit_of[role.args[a]];
      if (u < 0) continue;
      const std::size_t unit = to_size(u);
      // A tied embedding that two stages of the rank use stays gathered.
      const bool again = current[unit] != kNever &&
                         role.ops[found[current[unit]].first].stage == op.stage &&
                         times[found[current[unit]].first] != times[i];
      if (!keep[unit] && latest != layer_of(out, unit)) {
        latest = layer_of(out, unit);
        ++visit;
      }
      if (current[unit] == kNever || (!keep[unit] && visit_of[unit] != visit) || again) {
        current[unit] = found.size();
        found.push_back({unit, i, {}});
      }
      visit_of[unit] = visit;
      found[current[unit]].args.push_back(a);
    }
  }
  return found;
}

/// A stretch of ops, all forward or all backward, that use the parameters of one layer.
struct Visit {
  int layer = -1;
  bool forward = false;
  std::size_t first = 0;  // its first op
};

/// The visits that prefetching counts: FSDP2 unshards ahead of a module's forward pass, and
/// separately ahead of its backward pass, whether or not both use the same copy.
std::vector<Visit> visits(const DraftRole& out) {
  const Role& role = out.role;
  IndexVector<BufferId, bool> parameters(role.buffers.size(), false);
  for (const Unit& unit : role.units) parameters[unit.param()] = true;
  std::vector<Visit> found;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    const auto args = role.args_of(op);
    if (std::none_of(args.begin(), args.end(), [&](BufferId arg) { return parameters[arg]; })) {
      continue;
    }
    const bool forward = op.phase == Phase::F;
    if (found.empty() || found.back().layer != op.layer || found.back().forward != forward) {
      found.push_back({op.layer, forward, i});
    }
  }
  return found;
}

/// The op with which that visit begins which is `ahead` visits before the one of the op at `first`.
std::size_t place_ahead(const std::vector<Visit>& visits, std::size_t first, std::size_t ahead) {
  const auto after = std::upper_bound(visits.begin(), visits.end(), first,
                                      [](std::size_t op, const Visit& v) { return op < v.first; });
  const std::size_t visit = to_size(after - visits.begin()) - 1;
  return visits[visit >= ahead ? visit - ahead : 0].first;
}

class Gatherer {
 public:
  Gatherer(Draft& draft, DraftRole& out)
      : draft_(draft), out_(out), strategy_(draft.scenario.strategy) {}

  void run() {
    const auto gathered = [this](const Unit& unit) { return gathers(unit); };
    if (std::any_of(role_.units.begin(), role_.units.end(), gathered)) gather_parameters();
    if (strategy_.overlap_param_gather) gather_updated();
    insert_ops(role_, std::move(insertions_));  // keeps the order of those at one place
  }

 private:
  /// Whether the unit's gathered copy is kept from its first use to its last.
  bool kept(const Unit& unit) const {
    const bool reshard = strategy_.fsdp_reshard_after_forward == ReshardAfterForward::Always ||
                         (strategy_.fsdp_reshard_after_forward == ReshardAfterForward::Default &&
                          strategy_.pipeline_parallel_degree == 1);
    // The root unit (embedding, head, tied weights, and blocks too small to wrap) stays gathered.
    return !reshard || unit.name.rfind("blocks.", 0) != 0 ||
           unit.elements < strategy_.fsdp_min_num_params;
  }

  void gather_parameters() {
    std::vector<bool> keep;
    for (const Unit& unit : role_.units) keep.push_back(unit.whole_param || kept(unit));
    const std::ptrdiff_t rank = &out_ - draft_.roles.data();
    const std::vector<Visit> layers = visits(out_);
    std::vector<Episode> all = episodes(
        out_, keep,
        unshards_of_ops(role_, draft_.schedule.actions[rank], strategy_.fsdp_max_active_stages));
    std::erase_if(all, [&](const Episode& e) { return !gathers(role_.units[e.unit]); });
    const auto in_forward = [&](const Episode& e) { return role_.ops[e.first].phase == Phase::F; };
    GroupId fewer;
    std::vector<BufferId> kept_pieces(role_.units.size());
    std::vector<int> backward_left(role_.units.size(), 0);
    if (strategy_.reshards_to_fewer()) {
      fewer = draft_.group("dp_reshard", {"dp_reshard"});
      for (const Episode& e : all) backward_left[e.unit] += !in_forward(e);
    }
    std::size_t place = 0;  // never goes back, so that gathers are in the order of their use
    for (const Episode& e : all) {
      const std::size_t u = e.unit;
      const Unit& unit = role_.units[u];
      Buffer gathered = role_.buffer(unit.param());
      gathered.kind = BufferKind::ParamFull;
      gathered.bytes = full_bytes(draft_.program, unit, gathered);
      const BufferId full = add_buffer(role_, gathered);
      for (std::uint32_t a : e.args) role_.args[a] = full;
      const std::size_t ahead = prefetch(role_.ops[e.first].phase);
      place = std::max(place, place_ahead(layers, e.first, ahead));
      const bool from_piece = !in_forward(e) && kept_pieces[u].valid();
      const BufferId source = from_piece ? kept_pieces[u] : unit.param();
      if (strategy_.zero_quantized_weights && !from_piece) {
        gather_codes(place, u, full);
      } else {
        insertions_.push_back({place,
                               once_reached(place, collective(OpKind::AllGather, Stream::Gather,
                                                              from_piece ? fewer : unit.shard_group,
                                                              layer_of(out_, u))),
                               {source, full}});
      }
      if (!in_forward(e)) {
        --backward_left[u];
      } else if (backward_left[u] > 0) {
        keep_piece(place, u, full, fewer, kept_pieces);
      }
    }
  }
  /// Whether a unit is gathered, or made anew, whenever it is needed.
  bool gathers(const Unit& unit) const {
    return !unit.whole_param && (unit.shard_group.valid() || rounds(unit));
  }
  /// Whether a unit is rounded although the rank holds all of it, as other layouts round what they
  /// gather. No layout sends scales and the biases of routers.
  bool rounds(const Unit& unit) const {
    const auto u = static_cast<std::size_t>(&unit - &role_.units.front());
    return strategy_.zero_quantized_weights && layout_of(draft_, out_.units[u]).has_gradient() &&
           unit.elements > strategy_.fsdp_persistence_threshold;
  }
  /// ZeRO++'s gather: each rank sends the codes of its shard, and all compute with the values of
  /// codes, those of their own shard included.
  void gather_codes(std::size_t place, std::size_t u, BufferId full) {
    const Unit& unit = role_.units[u];
    const bool shared = unit.shard_group.valid();
    const int ranks =
        shared ? group_size(draft_.program.mesh, draft_.program.group(unit.shard_group)) : 1;
    const DType type = role_.buffer(full).dtype;
    const int layer = layer_of(out_, u);
    CodedParts what{unit.shard_elements, 1, strategy_.zero_quantized_block_size, 8};
    BufferId codes = add_codes(draft_, role_, what.bytes(), layer);
    const auto call = [&](FunctionId function) {
      Op op;
      op.stream = Stream::Gather;
      op.target = function.v;
      op.layer = static_cast<std::int16_t>(layer);
      return op;
    };
    insertions_.push_back(
        {place, once_reached(place, call(to_codes(draft_, what, 1, type))), {unit.param(), codes}});
    if (shared) {
      what.parts = ranks;
      const BufferId all = add_codes(draft_, role_, what.bytes(), layer);
      insertions_.push_back({place,
                             collective(OpKind::AllGather, Stream::Gather, unit.shard_group, layer),
                             {codes, all}});
      codes = all;
    }
    insertions_.push_back({place, call(from_codes(draft_, what, 1, type)), {codes, full}});
  }
  /// The op, made to wait for the computation before `place`. A prefetch goes out no earlier, even
  /// if there is memory for it: an all-gather of FSDP2 waits until the copy before it is used,
  /// which is when the computation before that has ended, so that two copies are alive.
  Op once_reached(std::size_t place, Op op) {
    while (place > 0 && !computes(role_.ops[place - 1])) --place;
    if (place == 0) return op;
    op.after_begin = static_cast<std::uint32_t>(role_.after.size());
    op.after_count = 1;
    role_.after.push_back({static_cast<std::int32_t>(place) - 1});
    return op;
  }
  static bool computes(const Op& op) {
    return op.kind == OpKind::Call && op.stream == Stream::Compute;
  }
  /// Megatron's overlap_param_gather: gathers what the last step updated in the order of use, while
  /// the forward pass computes with what has arrived.
  void gather_updated() {
    IndexVector<BufferId, int> waiting(role_.buffers.size(),
                                       -1);  // by buffer: the unit to be gathered
    for (std::size_t u = 0; u < role_.units.size(); ++u) {
      const Unit& unit = role_.units[u];
      if (unit.gathered_late) waiting[unit.param()] = static_cast<int>(u);
    }
    for (const Op& op : role_.ops) {
      for (const BufferId param : role_.args_of(op)) {
        const int u = std::exchange(waiting[param], -1);
        if (u < 0) continue;
        const std::size_t unit = to_size(u);
        const GroupId shards = role_.units[unit].shard_group;
        const Bytes own = shard_bytes(role_.units[unit], role_.buffer(param));
        insertions_.push_back(
            {0,
             collective(OpKind::AllGather, Stream::Gather, shards, layer_of(out_, unit)),
             {add_piece(role_, param, shards, own), param}});
      }
    }
  }
  /// FSDP2's integer reshard_after_forward, or ZeRO++'s secondary partition: keeps a piece of the
  /// copy that was gathered for the forward pass, for the gathers of the backward pass, which then
  /// span fewer ranks.
  void keep_piece(std::size_t place, std::size_t u, BufferId full, GroupId fewer,
                  std::vector<BufferId>& kept_pieces) {
    const int parts = strategy_.fsdp_reshard_degree;
    Buffer piece = role_.buffer(full);
    piece.bytes = Bytes{piece.bytes.v / parts};
    const BufferId copy = add_buffer(role_, piece);
    insertions_.push_back({place,
                           copy_op(piece, layer_of(out_, u)),
                           {add_piece(role_, full, fewer, piece.bytes), copy}});
    kept_pieces[u] = copy;
  }
  Op copy_op(const Buffer& piece, int layer) {
    Op op;
    op.stream = Stream::Gather;
    const std::int64_t elements = piece.bytes.v / size_of(piece.dtype);
    op.target = copy_function(draft_, elements, piece.dtype, piece.dtype, false).v;
    op.layer = static_cast<std::int16_t>(layer);
    return op;
  }
  std::size_t prefetch(Phase phase) const {
    const bool backward = phase != Phase::F && strategy_.fsdp_backward_prefetch >= 0;
    return to_size(backward ? strategy_.fsdp_backward_prefetch : strategy_.fsdp_prefetch);
  }

  Draft& draft_;
  DraftRole& out_;
  Role& role_ = out_.role;
  const StrategySpec& strategy_;
  std::vector<Insertion> insertions_;
};

}  // namespace

void unshard(Draft& draft) {
  const StrategySpec& strategy = draft.scenario.strategy;
  const bool gathers = strategy.state_shards() > 1 || strategy.zero_quantized_weights;
  if (draft.model.units.empty() || !gathers) return;
  for (DraftRole& out : draft.roles) Gatherer(draft, out).run();
}

}  // namespace lockstep
