#include "core/ir/verify/values.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/ir/verify/repeats.hpp"

namespace lockstep::verification {

namespace {

/// The buffers that functions of one kernel of this kind update.
std::set<BufferId> updated_by(KernelKind kind, const Program& program, const Role& role) {
  const auto updates = [kind](const Function& function) {
    return function.kernels.size() == 1 && function.kernels[0].kind == kind;
  };
  std::set<BufferId> updated;
  const auto& functions = program.functions;
  if (std::none_of(functions.begin(), functions.end(), updates)) return updated;
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::Call || !updates(program.function(op.function()))) continue;
    const Operand& state = program.function(op.function()).kernels[0].out[0];
    updated.insert(role.root(role.args_of(op)[to_size(state.formal)]));
  }
  for (const Op& op : role.ops) {  // what lies on a drive is updated in a copy
    const auto args = role.args_of(op);
    if (op.kind == OpKind::HostToDrive && updated.contains(args[0])) updated.insert(args[1]);
  }
  return updated;
}

}  // namespace

Values::Values(const Program& program, const std::deque<Ranges>& ranges, const Repeats* repeats,
               Unproven unproven, Faults& faults)
    : program_(program),
      ranges_(ranges),
      faults_(faults),
      axes_(spread_axes(program)),
      apart_(program.replica_dim()),
      summaries_(program, patterns_),
      repeats_(repeats),
      unproven_(unproven) {
  read_names();
  for (const Role& role : program.roles) {
    const std::set<BufferId> balanced = updated_by(KernelKind::RouterBias, program, role);
    const std::set<BufferId> scaled = updated_by(KernelKind::DelayedScale, program, role);
    for (const Unit& unit : role.units) {
      const auto [at, fresh] = unit_ids_.try_emplace(unit.name, unit_names_.next());
      if (!fresh) continue;
      unit_names_.push_back(unit.name);
      const bool trained = unit.trained();
      takes_largest_.push_back(trained && scaled.contains(role.root(unit.updated())));
      // Loads and largest magnitudes are gradients that no norm counts.
      if (trained && !takes_largest_.back() && !balanced.contains(role.root(unit.updated()))) {
        all_units_ = all_units_ + Terms::of(static_cast<std::uint64_t>(at->second));
      }
    }
  }
  whole_units_.assign(unit_names_.size(), 0);
  moved_.resize(program.groups.size());
}

std::vector<int> Values::expert_axes(const Unit& unit) const {
  if (!unit.split_group.valid() || unit.parameters.empty()) return {};
  const int experts = program_.parameters[unit.parameters.front().parameter].first_parts;
  std::vector<int> dims = program_.group(unit.split_group).dims;
  std::sort(dims.begin(), dims.end());
  std::size_t count = 0;
  for (int ranks = 1; ranks < experts && count < dims.size(); ++count) {
    ranks *= program_.mesh.dims[dims[count]].size;
  }
  dims.resize(count);
  return dims;
}

/// Puts into the units' persistent buffers what they hold when a step begins.
void Values::place_units(RoleRun& run) {
  run.units.assign(unit_names_.size(), -1);
  for (const int u : run.role.units.ids()) {
    const Unit& unit = run.role.units[u];
    const UnitNumber id = unit_ids_.at(unit.name);
    run.units[id] = u;
    if (unit.shard_group.valid()) {
      for (const int axis : program_.group(unit.shard_group).dims) {
        const bool spread = std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
        if (spread || program_.mesh.dims[axis].size == 1) continue;
        faults_.add("rank " + number(run.rank) + ": unit " + unit.name +
                    " is divided along an axis whose ranks hold other layers");
        failed_ = true;
        return;
      }
    }
    const auto in = [&](GroupId group, int axis) {
      if (!group.valid()) return false;
      const auto& dims = program_.group(group).dims;
      return std::find(dims.begin(), dims.end(), axis) != dims.end();
    };
    const Along of_replicas = unit.frozen ? Along::Same : Along::Replica;
    const std::vector<int> experts = expert_axes(unit);
    const auto placed = [&](bool split, Along shard) {
      Placement p;
      for (const int axis : axes_) {
        // Experts are divided even where what is one expert's is not.
        const bool first = std::find(experts.begin(), experts.end(), axis) != experts.end();
        p.set(axis, axis == apart_                                   ? of_replicas
                    : in(unit.shard_group, axis)                     ? shard
                    : first || (split && in(unit.split_group, axis)) ? Along::Split
                                                                     : Along::Same);
      }
      return p;
    };
    const auto divided = [&](const UnitParameter& part) {
      return program_.parameters[part.parameter].split_dim >= 0;
    };
    const bool all_split = std::all_of(unit.parameters.begin(), unit.parameters.end(), divided);
    // This is the unit as functions read it: placed by parameter, with offsets in elements.
    Pattern whole;
    if (all_split || !unit.split_group.valid()) {
      whole.pieces = {{0, Patterns::kEndless, {placed(true, Along::Same), DType::F32}}};
    } else {
      for (const UnitParameter& part : unit.parameters) {
        whole.pieces.push_back({part.offset,
                                part.offset + held_elements(program_, unit, part),
                                {placed(divided(part), Along::Same), DType::F32}});
      }
    }
    whole_units_[id] = patterns_.intern(whole);
    // Running statistics, which forward updates, have no optimizer state and are never in shards.
    const bool weights = unit.trained() || unit.shard_group.valid() || unit.frozen;
    unit.each_state([&](const StateRow& row, BufferId buffer) {
      const DType type = run.role.buffer(buffer).dtype;
      const bool gathers = row.extent == Extent::Held && unit.whole_param;
      const Along shard = gathers ? (unit.gathered_late ? Along::Piece : Along::Same)
                          : row.extent == Extent::Factors ? Along::Same
                                                          : Along::Flat;
      Content c;
      c.meaning = row.kind == StateKind::Param && !weights ? Meaning::of(Means::Statistics, id)
                                                           : Meaning::of(row.kind, id);
      if (shard == Along::Same || !unit.shard_group.valid()) {
        Pattern pattern = whole;
        // Scales and codes of quantized states are not placed by parameter.
        if (type == DType::U8) {
          pattern.pieces = {{0, Patterns::kEndless, whole.pieces[0].as}};
        }
        for (Pattern::Piece& piece : pattern.pieces) {
          piece.as.dtype = type;
          if (piece.end == Patterns::kEndless) continue;
          piece.begin *= size_of(type);
          piece.end *= size_of(type);
        }
        c.pattern = patterns_.intern(std::move(pattern));
      } else {
        c.pattern = patterns_.uniform({placed(true, shard), type});
      }
      if (row.holder == Holder::All) {
        c.pattern = placed_along(c.pattern, apart_, Along::Same);
      }
      for (const int axis : axes_) {
        if (row.holder != Holder::Rank || !in(unit.feedback_group, axis)) continue;
        c.pattern = placed_along(c.pattern, axis, Along::Partial);
      }
      const Touch touch =
          run.ranges.part(buffer, 0, run.role.buffer(buffer).bytes.v, Access::Write);
      put(run, touch, c);
    });
  }
}

bool Values::step(RoleRun& run) {
  const OpId id = run.next;
  const Op& op = run.role.op(id);
  if (repeats_ != nullptr) {
    const OpId original = repeats_->original(id_of(run), id);
    if (original.valid()) return repeat(run, id, original);
  }
  if (op.phase == Phase::S && unproven_.replicas) {  // they end the list
    run.next = OpId{run.role.ops.next().v - 1};
    return true;
  }
  if (op.phase == Phase::S && !run.synchronizing) {
    // Most steps end here, so what every step must leave is there.
    run.synchronizing = true;
    check_weights_after(run, {id.v - 1}, false);
    if (failed_) return true;
  }
  if (op.kind == OpKind::Call) {
    const Function& function = program_.function(op.function());
    if (op.phase == Phase::S) return synchronization_call(run, id);
    const bool between = op.phase == Phase::O || op.phase == Phase::None;
    if (between && orthogonalizes(function)) return orthogonalize(run, id);
    if (between && is_low_rank(function)) return low_rank_call(run, id);
    if (between && factors(function)) return factor_call(run, id);
    return between && is_update(function) ? update_call(run, id) : layer_call(run, id);
  }
  if (is_collective(op.kind)) return collective(run, id);
  return is_p2p(op.kind) ? send(run, id) : host_copy(run, id);
}

/// Does what others can tell of an op that repeats `original`, which has been followed: it waits
/// for the messages that it needs, sends and receives, and puts the loss in its own place.
bool Values::repeat(RoleRun& run, OpId id, OpId original) {
  const Op& op = run.role.op(id);
  if (run.noted[original] == 0 && !is_p2p(op.kind)) return true;
  const auto before = [](const auto& done, OpId other) { return done.op < other; };
  const auto& awaited = run.awaited;
  for (auto message = std::lower_bound(awaited.begin(), awaited.end(), original, before);
       message != awaited.end() && message->op == original; ++message) {
    const OpId own = repeats_->counterpart(id_of(run), message->receive, op.microbatch);
    const Receipt& receipt = receipts_[run.receipts.at(own)];
    if (messages_[receipt.channel].next() <= receipt.index) return false;
  }
  if (op.kind == OpKind::Recv) receive(run, id);
  // Nobody asks what is in the message, because a repetition receives it, too.
  if (op.kind == OpKind::Send) messages_[channel_of(run, op)].emplace_back();
  const auto& losses = run.losses;
  for (auto done = std::lower_bound(losses.begin(), losses.end(), original, before);
       done != losses.end() && done->op == original; ++done) {
    Touch touch = run.ranges.touch(op, to_size(done->argument));
    touch.end = touch.begin + done->end;
    touch.begin += done->begin;
    Content loss = done->loss;
    if (loss.meaning.what == Means::Loss) loss.meaning.terms = loss_of(op.microbatch);
    put(run, touch, loss);
  }
  return true;
}

void Values::run_roles() {
  for (bool moved = true; moved && !failed_;) {
    moved = false;
    for (RoleRun& run : runs_) {
      while (!failed_ && run.next < run.role.ops.next() && step(run)) {
        run.end_lives(run.next);
        ++run.next.v;
        moved = true;
      }
    }
  }
  for (const RoleRun& run : runs_) {
    if (failed_ || run.next == run.role.ops.next()) continue;
    fault(run, run.next,
          "waits in its list for a value that comes later in another rank's: what it means "
          "cannot be followed");
  }
}

void Values::check() {
  for (const Function& function : program_.functions) {
    if (function.emitted == 0 || function.emitted == fingerprint(function)) continue;
    return faults_.add("function " + function.name +
                       " is not what the model library emitted; declare it own if that is meant");
  }
  if (program_.emitted != 0 && program_.emitted != model_fingerprint(program_)) {
    return faults_.add(
        "the parameters, or how they lie in their units, are not what the model library emitted; "
        "leave out the line \"emitted\" if that is meant");
  }
  if (all_units_.count == 0) return;  // the program trains nothing
  runs_.reserve(program_.roles.size());
  for (const Role& role : program_.roles) {
    RoleRun& run = runs_.emplace_back(program_, role, ranges_[runs_.size()]);
    read_layers(run);
    place_units(run);
  }
  run_roles();
  if (!failed_) finish();
}

void check_meaning(const Program& program, const std::deque<Ranges>& ranges, const Repeats& repeats,
                   Unproven unproven, Faults& faults) {
  Faults found;
  Values(program, ranges, &repeats, unproven, found).check();
  if (!found.none()) Values(program, ranges, nullptr, unproven, faults).check();
}

}  // namespace lockstep::verification
