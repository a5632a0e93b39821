#include <algorithm>

#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// Whether a function makes matrices orthogonal.
bool Values::orthogonalizes(const Function& function) {
  return function.name.kind() == FunctionName::Kind::Orthogonalize && !function.formals.empty();
}

/// Follows Muon's momentum, which makes the direction of a unit from its gradient.
bool Values::momentum(RoleRun& run, OpId id, const Kernel& kernel) {
  const Op& op = run.role.op(id);
  const Function& function = program_.function(op.function());
  IndexVector<int, std::optional<Content>> held(function.formals.size());
  std::vector<PatternId> found(function.formals.size());
  if (!arguments(run, id, held, found)) return false;
  const int g = kernel.in[0].formal, m = kernel.out[0].formal, d = kernel.out[1].formal;
  const int update = std::max(op.microbatch, 0);
  if (!held[m] || !held[m]->meaning.is(StateKind::Moment1) || held[m]->origin != 0) {
    return fault(
        run, id,
        "updates " + (held[m] ? text(held[m]->meaning) : "several tensors") + " as a first moment");
  }
  const Meaning moment = held[m]->meaning;
  const int u = run.units[moment.id];
  const std::int64_t elements = kernel.dims[0];
  if (u < 0 || run.role.units[u].shard_elements != elements) {
    return fault(run, id, "updates a part of " + text(moment));
  }
  if (moment.version != update) {
    return fault(run, id,
                 "is update " + number(moment.version) + " of " + text(moment) +
                     " in this step, but counted as " + number(update));
  }
  if (!held[g] || (!held[g]->meaning.own && held[g]->meaning.id != moment.id)) {
    return fault(
        run, id,
        "adds " + (held[g] ? text(held[g]->meaning) : "several tensors") + " to " + text(moment));
  }
  if (!whole_gradient(run, id, *held[g], elements, update) || failed_) return true;
  if (!reads_coefficient(run, id, kernel, held)) return true;
  const Summary& summary = summaries_.of(op.function(), found);
  if (!summary.fault.empty()) return fault(run, id, text(moment) + ": " + summary.fault);
  Content after = *held[m], direction = *held[m];
  ++after.meaning.version;
  put(run, id, to_size(m), {{0, elements * size_of(kernel.out[0].dtype), after}});
  direction.meaning = Meaning::of(Means::Direction, moment.id);
  direction.meaning.version = update;
  direction.pattern = summary.after[to_size(d)];
  put(run, id, to_size(d), {{0, elements * size_of(kernel.out[1].dtype), direction}});
  return true;
}

/// The parameter of a unit that has this element among those that a rank holds; null if none has.
const UnitParameter* Values::parameter_at(const Unit& unit, std::int64_t element) const {
  for (const UnitParameter& part : unit.parameters) {
    const std::int64_t end = part.offset + held_elements(program_, unit, part);
    if (element >= part.offset && element < end) return &part;
  }
  return nullptr;
}

/// Follows a function that makes one matrix of a direction orthogonal. The matrix must be whole:
/// only experts may be divided, each of which is.
bool Values::orthogonalize(RoleRun& run, OpId id) {
  const Op& op = run.role.op(id);
  const Function& function = program_.function(op.function());
  std::vector<Held> held;
  if (!holds(run, id, 0, held)) return false;
  const std::optional<Content> matrix = unite(held);
  if (!matrix || matrix->meaning.what != Means::Direction) {
    return fault(run, id,
                 "makes " + (matrix ? text(matrix->meaning) : "several tensors") + " orthogonal");
  }
  const int u = run.units[matrix->meaning.id];
  if (u < 0) return fault(run, id, "reads a direction of a unit that its rank does not have");
  const Unit& unit = run.role.units[u];
  const PlacedAs as = patterns_.at(matrix->pattern).pieces[0].as;
  const std::int64_t size = size_of(as.dtype), first = -matrix->origin / size;
  const UnitParameter* part = parameter_at(unit, first);
  if (part == nullptr) return fault(run, id, "reads what is no parameter of " + unit.name);
  const Parameter& parameter = program_.parameters[part->parameter];
  const bool experts = parameter.shape.size() == 3;
  PlacedAs whole{{}, as.dtype};
  for (const int axis : axes_) {
    whole.placement.set(axis, Along::Same);
    const Along along = as.placement.along(axis);
    if (along == Along::Same || (experts && along == Along::Split)) continue;
    if (axis == apart_ && along == Along::Replica) continue;
    return fault(run, id,
                 "needs a whole matrix of " + parameter.name + ", which is " +
                     std::string(to_string(along)) + " along " + program_.mesh.dims[axis].name);
  }
  const bool gathered = !experts && parameter.split_dim >= 0;
  const std::int64_t parts = gathered ? split_parts(program_, unit) : 1;
  const std::int64_t elements = function.formals[0].bytes.v / size;
  const bool inside =
      first + elements / parts <= part->offset + held_elements(program_, unit, *part);
  const auto product = std::find_if(function.kernels.begin(), function.kernels.end(),
                                    [](const Kernel& k) { return k.kind == KernelKind::Gemm; });
  const std::int64_t cols = parameter.shape.empty() ? 0 : parameter.shape.back();
  const bool shaped = product != function.kernels.end() &&
                      (product->dims[3] == 0 ? product->dims[2] : product->dims[0]) == cols;
  if (!inside || !shaped) {
    return fault(
        run, id,
        "does not read a matrix of " + parameter.name + " with its " + number(cols) + " columns");
  }
  std::vector<PatternId> found(function.formals.size(), 0);
  found[0] = patterns_.uniform(whole);
  const Summary& summary = summaries_.of(op.function(), found);
  if (!summary.fault.empty()) return fault(run, id, parameter.name + ": " + summary.fault);
  run.ranges.touch_all(op, touches_);
  if (overlaps(function)) {
    return fault(run, id, "is given one buffer for two tensors, one of which it writes");
  }
  Content after = *matrix;
  after.meaning.what = Means::Orthogonal;
  put(run, id, 0, {{0, function.formals[0].bytes.v, after}});
  // What it computes on the way is for nobody else.
  for (const int f : function.formals.ids()) {
    if (f == 0 || function.formals[f].access == Access::Read) continue;
    put(run, id, to_size(f), {{0, function.formals[f].bytes.v, Content{}}});
  }
  return true;
}

}  // namespace lockstep::verification
