// Follows what brings replicas that train apart together: every replica's term of the mean is of
// its own weights, is summed over all replicas, and what all replicas take is made of that sum
// alone.
#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

bool Values::synchronizes(const Kernel& kernel) {
  return kernel.kind == KernelKind::ReplicaTerm || kernel.kind == KernelKind::OuterSgd;
}

/// Functions of phase S have one kernel each: a replica's term, the outer step, or a copy.
bool Values::synchronization_call(RoleRun& run, OpId id) {
  const Function& function = program_.function(run.role.op(id).function());
  if (function.kernels.size() == 1) {
    const Kernel& kernel = function.kernels[0];
    if (kernel.kind == KernelKind::ReplicaTerm) return replica_term(run, id, kernel);
    if (kernel.kind == KernelKind::OuterSgd) return outer_step(run, id, kernel);
    if (kernel.kind == KernelKind::ColumnSum && is_update(function)) return copy(run, id, kernel);
  }
  return fault(
      run, id,
      "does not bring replicas together, and so is not of phase S, whose functions have one "
      "kernel each: replica_term, outer_sgd, or column_sum as a copy");
}

/// The role's unit of which a formal holds what is wanted, as a whole shard; null after a fault.
const Unit* Values::unit_of(RoleRun& run, OpId id, const std::optional<Content>& found,
                            Meaning wanted, std::int64_t elements) {
  wanted.id = found ? found->meaning.id : -1;
  const bool fits =
      found && found->meaning.what == wanted.what && found->meaning.state == wanted.state;
  const int u = fits ? run.units[wanted.id] : -1;
  if (u >= 0 && found->origin == 0 && run.role.units[u].shard_elements == elements) {
    return &run.role.units[u];
  }
  fault(run, id,
        "reads " + (found ? text(found->meaning) : "several tensors") + " as " + text(wanted));
  return nullptr;
}

bool Values::replica_term(RoleRun& run, OpId id, const Kernel& kernel) {
  std::vector<Held> parts;
  IndexVector<std::size_t, std::optional<Content>> held;
  const std::size_t formals = program_.function(run.role.op(id).function()).formals.size();
  for (std::size_t i = 0; i < formals; ++i) {
    if (!holds(run, id, i, parts)) return false;
    held.push_back(unite(parts));
  }
  const Unit* const unit = unit_of(run, id, held[0], Meaning::of(StateKind::Param), kernel.dims[0]);
  if (unit == nullptr) return true;
  const Meaning& weights = held[0]->meaning;
  const DType updated = run.role.buffer(unit->updated()).dtype;
  if (weights.version != program_.updates_per_step || kernel.in[0].dtype != updated) {
    return fault(run, id, "reads " + text(weights) + " before their update, or rounded");
  }
  if (kernel.in[1].present() != unit->has(StateKind::Outer)) {
    return fault(run, id,
                 unit->has(StateKind::Outer)
                     ? "does not read what the replicas started from"
                     : "reads what the replicas started from, which none keeps");
  }
  if (kernel.in[1].present()) {
    const Unit* const of = unit_of(run, id, held[1], Meaning::of(StateKind::Outer), kernel.dims[0]);
    if (of == nullptr) return true;
    if (of != unit || held[1]->meaning.version != 0) {
      return fault(run, id, "compares " + text(weights) + " with " + text(held[1]->meaning));
    }
  }
  if (kernel.scalars[0] != 1.0 / program_.replicas()) {
    return fault(run, id,
                 "makes no term of the mean over replicas: its factor is " +
                     std::to_string(kernel.scalars[0]) + ", and of " + number(program_.replicas()) +
                     " replicas it is 1/" + number(program_.replicas()));
  }
  std::vector<PatternId> found(formals);
  for (std::size_t i = 0; i + 1 < formals; ++i) found[i] = held[i]->pattern;
  const Summary& summary = summaries_.of(run.role.op(id).function(), found);
  if (!summary.fault.empty()) return fault(run, id, unit->name + ": " + summary.fault);
  Content made;
  made.meaning.what = Means::Way;
  made.meaning.id = weights.id;
  made.pattern = summary.after.back();
  put(run, id, formals - 1, {{0, kernel.dims[0] * size_of(kernel.out[0].dtype), made}});
  return true;
}

bool Values::outer_step(RoleRun& run, OpId id, const Kernel& kernel) {
  std::vector<Held> parts;
  std::array<std::optional<Content>, 3> held;
  std::vector<PatternId> found(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (!holds(run, id, i, parts)) return false;
    held[i] = unite(parts);
    if (held[i]) found[i] = held[i]->pattern;
  }
  const std::array<Meaning, 3> wanted = {Meaning::of(Means::Way), Meaning::of(StateKind::Outer),
                                         Meaning::of(StateKind::OuterMomentum)};
  const Unit* unit = nullptr;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const Unit* const of = unit_of(run, id, held[i], wanted[i], kernel.dims[0]);
    if (of == nullptr) return true;
    if (i > 0 && (of != unit || held[i]->meaning.version != 0)) {
      return fault(run, id,
                   "moves " + text(held[i]->meaning) + " by " + text(held[0]->meaning) +
                       ", or a second time");
    }
    unit = of;
  }
  const Summary& summary = summaries_.of(run.role.op(id).function(), found);
  if (!summary.fault.empty()) return fault(run, id, unit->name + ": " + summary.fault);
  for (std::size_t i = 1; i < held.size(); ++i) {
    Content after = *held[i];
    after.meaning.version = 1;
    put(run, id, i, {{0, kernel.dims[0] * size_of(kernel.out[i - 1].dtype), after}});
  }
  return true;
}

/// Makes of what a copy of phase S copies the weights that all replicas take. Returns false after a
/// fault.
bool Values::take_result(RoleRun& run, OpId id, Content& result) {
  Meaning& meaning = result.meaning;
  const int u = meaning.id < 0 ? -1 : run.units[meaning.id];
  const bool outer = meaning.is(StateKind::Outer) && meaning.version == 1;
  const bool mean =
      meaning.what == Means::Way && u >= 0 && !run.role.units[u].has(StateKind::Outer);
  if (u < 0 || (!outer && !mean)) {
    fault(run, id, "lets the replicas take " + text(meaning));
    return false;
  }
  for (const Pattern::Piece& piece : patterns_.at(result.pattern).pieces) {
    const Along along = apart_ < 0 ? Along::Same : piece.as.placement.along(apart_);
    if (along == Along::Same) continue;
    fault(run, id,
          "lets the replicas take what is " + std::string(to_string(along)) + " along " +
              program_.mesh.dims[apart_].name);
    return false;
  }
  const BufferId to = run.role.args_of(run.role.op(id))[1];
  const Unit& unit = run.role.units[u];
  const BufferId root = run.role.root(to);
  const bool fetched = !run.role.buffer(root).persistent();  // what the host will get
  if (!fetched && root != run.role.root(unit.param()) && root != unit.states[StateKind::Master]) {
    fault(run, id, "writes the weights of " + unit.name + " to another place");
    return false;
  }
  meaning = Meaning::of(StateKind::Param, unit_ids_.at(unit.name));
  meaning.version = program_.updates_per_step + 1;
  return true;
}

}  // namespace lockstep::verification
