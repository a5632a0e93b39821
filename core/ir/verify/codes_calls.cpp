// Follows weights and gradients that are sent as codes (ZeRO++): whose they are, and that a rank
// adds up exactly one shard of what every other rank has sent it.
#include <algorithm>

#include "core/ir/verify/values.hpp"

namespace lockstep::verification {
namespace {

/// Into how many shards a unit is divided.
std::int64_t shards_of(const Program& program, const Unit& unit) {
  return unit.shard_group.valid() ? group_size(program.mesh, program.group(unit.shard_group)) : 1;
}

}  // namespace

/// How the weights of a unit lie on the ranks that have gathered all shards, which came as `as`.
PatternId Values::whole_weights(UnitNumber unit, PlacedAs as) {
  Pattern whole = patterns_.at(whole_units_[unit]);
  for (Pattern::Piece& piece : whole.pieces) {
    piece.as.dtype = as.dtype;
    if (piece.end == Patterns::kEndless) continue;
    piece.begin *= size_of(as.dtype);
    piece.end *= size_of(as.dtype);
  }
  const Along of_replicas = apart_ < 0 ? Along::Same : as.placement.along(apart_);
  return placed_along(patterns_.intern(std::move(whole)), apart_, of_replicas);
}

bool Values::to_codes(RoleRun& run, OpId id, const Kernel& kernel) {
  std::vector<Held> held;
  if (!holds(run, id, 0, held)) return false;
  const std::optional<Content> all = unite(held);
  if (!all) return fault(run, id, "makes codes of " + parts(run, held));
  const Meaning& from = all->meaning;
  const int u = from.id < 0 ? -1 : run.units[from.id];
  const bool weights = from.what == Means::Weights, slices = from.what == Means::Slices;
  if (u < 0 || all->origin != 0 || (!weights && !slices && from.what != Means::Gradient)) {
    return fault(run, id, "makes codes of " + text(from));
  }
  const Unit& unit = run.role.units[u];
  const std::int64_t n = kernel.dims[0], count = kernel.dims[1], targets = kernel.dims[2];
  const std::int64_t bytes = n * count * size_of(kernel.in[0].dtype);
  const bool fits = weights  ? count == 1
                    : slices ? targets == count && held.back().end == bytes
                             : count == shards_of(program_, unit);
  if (n != unit.shard_elements || !fits) {
    return fault(run, id, "makes codes of other parts than the shards of " + text(from));
  }
  // What a rank holds whole may be placed by parameter; codes are not looked into.
  PatternId pattern = with_zeros_filled(all->pattern, held.back().end);
  if (weights) pattern = patterns_.uniform(patterns_.at(pattern).pieces[0].as);
  const Summary& summary = summaries_.of(run.role.op(id).function(), {pattern, 0});
  if (!summary.fault.empty()) return fault(run, id, text(from) + ": " + summary.fault);
  Content made;
  made.meaning = from;
  made.meaning.what = weights ? Means::CodedWeights : Means::CodedGradient;
  if (!weights) made.meaning.version = static_cast<std::int32_t>(targets);
  made.pattern = summary.after[1];
  put(run, id, 1, {{0, run.role.buffer(run.role.args_of(run.role.op(id))[1]).bytes.v, made}});
  return true;
}

bool Values::from_codes(RoleRun& run, OpId id, const Kernel& kernel) {
  std::vector<Held> held;
  if (!holds(run, id, 0, held)) return false;
  const std::optional<Content> all = unite(held);
  const bool whole = all && all->origin == 0 && patterns_.is_uniform(all->pattern);
  if (whole && all->meaning.what == Means::CodedWeights) {
    return weights_from_codes(run, id, kernel, *all);
  }
  if (whole && all->meaning.what == Means::CodedGradient) {
    return sum_of_codes(run, id, kernel, *all);
  }
  return fault(run, id, "reads as codes " + (all ? text(all->meaning) : parts(run, held)));
}

bool Values::weights_from_codes(RoleRun& run, OpId id, const Kernel& kernel, const Content& codes) {
  const Unit& unit = run.role.units[run.units[codes.meaning.id]];
  const Summary& summary = summaries_.of(run.role.op(id).function(), {codes.pattern, 0});
  if (!summary.fault.empty()) return fault(run, id, text(codes.meaning) + ": " + summary.fault);
  const PlacedAs as = patterns_.at(summary.after[1]).pieces[0].as;
  const bool shard = std::any_of(axes_.begin(), axes_.end(),
                                 [&](int axis) { return as.placement.along(axis) == Along::Flat; });
  const std::int64_t shards = shards_of(program_, unit);
  if (shard || kernel.dims[0] != unit.shard_elements || kernel.dims[1] != shards ||
      kernel.dims[5] != 1) {
    return fault(run, id, "does not read the codes of all shards of " + unit.name);
  }
  Content made;
  made.meaning = codes.meaning;
  made.meaning.what = Means::Weights;
  made.pattern = whole_weights(codes.meaning.id, as);
  put(run, id, 1, {{0, unit.shard_elements * shards * size_of(as.dtype), made}});
  return true;
}

/// The parts that arrived are one from each of the ranks along the axes that hold terms, of each
/// shard that is still to be summed along others.
bool Values::sum_of_codes(RoleRun& run, OpId id, const Kernel& kernel, const Content& codes) {
  const Unit& unit = run.role.units[run.units[codes.meaning.id]];
  const PlacedAs before = patterns_.at(codes.pattern).pieces[0].as;
  std::int64_t sources = 1, left = 1;
  if (unit.shard_group.valid()) {
    for (const int axis : program_.group(unit.shard_group).dims) {
      const Along along = before.placement.along(axis);
      if (along == Along::Terms) sources *= program_.mesh.dims[axis].size;
      if (along == Along::Partial) left *= program_.mesh.dims[axis].size;
    }
  }
  if (kernel.dims[0] != unit.shard_elements || kernel.dims[5] != sources || sources == 1 ||
      kernel.dims[1] != sources * left) {
    return fault(run, id,
                 "does not add up the shards that " + number(sources) + " ranks have sent of " +
                     text(codes.meaning));
  }
  const Summary& summary = summaries_.of(run.role.op(id).function(), {codes.pattern, 0});
  if (!summary.fault.empty()) return fault(run, id, text(codes.meaning) + ": " + summary.fault);
  Content made;
  made.meaning = codes.meaning;
  made.meaning.what = left > 1 ? Means::Slices : Means::Gradient;
  made.meaning.version = 0;
  made.pattern = summary.after[1];
  put(run, id, 1, {{0, unit.shard_elements * left * size_of(kernel.out[0].dtype), made}});
  return true;
}

}  // namespace lockstep::verification
