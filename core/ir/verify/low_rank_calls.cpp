// Follows gradients that ranks sum as products of low rank (PowerSGD): both factors are of the
// whole gradient of their own parameter and are summed over all ranks, a gradient becomes the
// product of its own factors, and what the product leaves out is kept.
#include <algorithm>

#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// What the arguments of such a function hold, by the names of its formals.
struct Values::LowRankArgs {
  IndexVector<std::size_t, std::optional<Content>> held;
  std::vector<PatternId> found;
  std::map<std::string_view, std::size_t> formals;
  const Unit* unit = nullptr;
  std::size_t parameter = 0;  // among the unit's
  DType type = DType::F32;
  bool has(std::string_view name) const { return formals.contains(name); }
  std::size_t at(std::string_view name) const { return formals.at(name); }
  Content& of(std::string_view name) { return *held[at(name)]; }
};

bool Values::is_low_rank(const Function& function) {
  return lockstep::is_low_rank(function.name.kind()) && function.kernels.size() > 1;
}

bool Values::low_rank_call(RoleRun& run, OpId id) {
  const Function& function = program_.function(run.role.op(id).function());
  LowRankArgs args;
  for (std::size_t i = 0; i < function.formals.size(); ++i) {
    args.formals[function.formals[static_cast<int>(i)].name] = i;
    std::vector<Held> held;
    args.found.push_back(0);
    args.held.push_back({});
    if (function.formals[static_cast<int>(i)].access == Access::Write) continue;
    if (!holds(run, id, i, held)) return false;
    args.held[i] = unite(held);
    if (!args.held[i]) return fault(run, id, "reads as one matrix " + parts(run, held));
    args.found[i] = args.held[i]->pattern;
  }
  args.type = function.kernels[0].dtype;
  if (!low_rank_args(run, id, args)) return true;
  switch (function.name.kind()) {
    case FunctionName::Kind::LowRankProject:
      return project(run, id, args);
    case FunctionName::Kind::LowRankFactor:
      return factor(run, id, args);
    case FunctionName::Kind::LowRankRestore:
      return restore(run, id, args);
    default:
      return fault(run, id, "is no part of a product of low rank");
  }
}

/// Finds the parameter whose gradient or factor is read, and checks that all arguments have its
/// shape and its place. Returns false after a fault.
bool Values::low_rank_args(RoleRun& run, OpId id, LowRankArgs& args) {
  const Function& function = program_.function(run.role.op(id).function());
  const auto wrong = [&](const std::string& what) {
    fault(run, id, what);
    return false;
  };
  std::int32_t of = -1, parameter = -1;
  for (const auto& content : args.held) {
    if (content && content->meaning.id >= 0) of = content->meaning.id;
  }
  const int u = of < 0 ? -1 : run.units[of];
  if (u < 0) return wrong("reads no gradient of a unit that its rank has");
  args.unit = &run.role.units[u];
  const std::int64_t size = size_of(args.type);
  for (const auto& content : args.held) {
    if (!content) continue;
    const Meaning& m = content->meaning;
    std::int32_t index = -1;
    const std::int64_t first = -content->origin / size;
    if (m.what == Means::Gradient || m.what == Means::Compensated || m.is(StateKind::Feedback)) {
      const UnitParameter* const part = parameter_at(*args.unit, first);
      if (part != nullptr && part->offset == first) {
        index = static_cast<std::int32_t>(part - args.unit->parameters.data());
      }
    } else if (m.is(StateKind::Sketch)) {
      for (std::size_t i = 0; i < args.unit->parameters.size(); ++i) {
        if (args.unit->parameters[i].low_rank > 0 &&
            sketch_offset(program_, *args.unit, i) == first) {
          index = static_cast<std::int32_t>(i);
        }
      }
    } else if (m.what == Means::LeftFactor || m.what == Means::Basis ||
               m.what == Means::RightFactor) {
      if (first == 0) index = m.version;
    }
    if (m.id != of || index < 0 || (parameter >= 0 && parameter != index)) {
      return wrong("reads " + text(m) + " beside what is of another parameter");
    }
    parameter = index;
  }
  args.parameter = static_cast<std::size_t>(parameter);
  const UnitParameter& part = args.unit->parameters[args.parameter];
  const auto [rows, cols] = matrix_shape(program_.parameters[part.parameter]);
  for (const auto& [name, i] : args.formals) {
    const std::int64_t elements = name == "left"                        ? rows * part.low_rank
                                  : name == "right" || name == "sketch" ? cols * part.low_rank
                                                                        : rows * cols;
    if (part.low_rank == 0 || function.formals[static_cast<int>(i)].bytes.v != elements * size) {
      return wrong("has not the shape of " + program_.parameters[part.parameter].name);
    }
  }
  if (args.has("feedback") != args.unit->has(StateKind::Feedback) &&
      function.name.kind() != FunctionName::Kind::LowRankFactor) {
    return wrong(args.unit->has(StateKind::Feedback) ? "does not read what was left out before"
                                                     : "reads what was left out, which none keeps");
  }
  return true;
}

/// Makes the left factor of a gradient that is complete on the rank, with what was left out before.
bool Values::project(RoleRun& run, OpId id, LowRankArgs& args) {
  const Meaning gradient = args.of("grad").meaning;
  if (gradient.what != Means::Gradient) return fault(run, id, "projects " + text(gradient));
  if (!args.of("sketch").meaning.is(StateKind::Sketch) || args.of("sketch").meaning.version != 0) {
    return fault(run, id, "projects by " + text(args.of("sketch").meaning));
  }
  if (args.has("feedback") && (!args.of("feedback").meaning.is(StateKind::Feedback) ||
                               args.of("feedback").meaning.version != 0)) {
    return fault(run, id, "adds " + text(args.of("feedback").meaning) + " to a gradient");
  }
  claims_.push_back({&run, id, gradient, -1});
  const Summary& summary = summaries_.of(run.role.op(id).function(), args.found);
  if (!summary.fault.empty()) return fault(run, id, text(gradient) + ": " + summary.fault);
  const Function& function = program_.function(run.role.op(id).function());
  for (const std::string_view name : {"grad", "feedback"}) {
    if (!args.has(name)) continue;
    Content after = args.of("grad");
    after.meaning.what = Means::Compensated;
    after.pattern = summary.after[args.at(name)];
    put(run, id, args.at(name),
        {{0, function.formals[static_cast<int>(args.at(name))].bytes.v, after}});
  }
  Content left;
  left.meaning = gradient;
  left.meaning.what = Means::LeftFactor;
  left.meaning.version = static_cast<std::int32_t>(args.parameter);
  left.pattern = summary.after[args.at("left")];
  put(run, id, args.at("left"),
      {{0, function.formals[static_cast<int>(args.at("left"))].bytes.v, left}});
  return true;
}

/// Makes the basis of a left factor that is summed, and the right factor.
bool Values::factor(RoleRun& run, OpId id, LowRankArgs& args) {
  const Meaning gradient = args.of("grad").meaning, left = args.of("left").meaning;
  if (gradient.what != Means::Compensated || left.what != Means::LeftFactor ||
      gradient.terms != left.terms) {
    return fault(run, id, "multiplies " + text(gradient) + " by " + text(left));
  }
  const Summary& summary = summaries_.of(run.role.op(id).function(), args.found);
  if (!summary.fault.empty()) return fault(run, id, text(left) + ": " + summary.fault);
  const Function& function = program_.function(run.role.op(id).function());
  for (const std::string_view name : {"left", "right"}) {
    Content made;
    made.meaning = left;
    made.meaning.what = name == "left" ? Means::Basis : Means::RightFactor;
    made.pattern = summary.after[args.at(name)];
    put(run, id, args.at(name),
        {{0, function.formals[static_cast<int>(args.at(name))].bytes.v, made}});
  }
  return true;
}

/// Makes the product of two factors that are the same on all ranks. Each of them takes its share of
/// the product out of what it keeps, which stays a term of a sum.
bool Values::restore(RoleRun& run, OpId id, LowRankArgs& args) {
  const Meaning left = args.of("left").meaning, right = args.of("right").meaning;
  if (left.what != Means::Basis || right.what != Means::RightFactor || left.terms != right.terms) {
    return fault(run, id, "multiplies " + text(left) + " by " + text(right));
  }
  const Function& function = program_.function(run.role.op(id).function());
  PlacedAs product = patterns_.at(args.found[args.at("left")]).pieces[0].as;
  int ranks = 1;
  for (const int axis : axes_) {
    const Along b = patterns_.at(args.found[args.at("right")]).pieces[0].as.placement.along(axis);
    const Along a = product.placement.along(axis);
    if (a != Along::Same || b != Along::Same) {
      return fault(run, id,
                   text(a != Along::Same ? left : right) + " is " +
                       std::string(to_string(a != Along::Same ? a : b)) + " along " +
                       program_.mesh.dims[axis].name + "; a sum over it is missing");
    }
    if (args.has("feedback")) {
      const PlacedAs kept = patterns_.at(args.found[args.at("feedback")]).pieces[0].as;
      if (kept.placement.along(axis) == Along::Partial) ranks *= program_.mesh.dims[axis].size;
    }
  }
  const auto bytes = [&](std::string_view name) {
    return function.formals[static_cast<int>(args.at(name))].bytes.v;
  };
  const UnitParameter& part = args.unit->parameters[args.parameter];
  const std::int64_t size = size_of(args.type);
  if (args.has("feedback")) {
    const auto scale = std::find_if(function.kernels.begin(), function.kernels.end(),
                                    [](const Kernel& k) { return k.kind == KernelKind::Scale; });
    Content kept = args.of("feedback");
    if (kept.meaning.what != Means::Compensated || scale == function.kernels.end() ||
        scale->scalars[0] != -1.0 / ranks) {
      return fault(run, id, "does not take a rank's share of the product out of what it keeps");
    }
    kept.meaning.what = Means::State;
    kept.meaning.state = StateKind::Feedback;
    kept.meaning.version = 1;
    kept.meaning.terms = {};
    put(run, id, args.at("feedback"), {{0, bytes("feedback"), kept}});
  }
  Content sketch;
  sketch.meaning = Meaning::of(StateKind::Sketch, left.id);
  sketch.meaning.version = 1;
  sketch.pattern = patterns_.uniform(product);
  sketch.origin = -sketch_offset(program_, *args.unit, args.parameter) * size;
  put(run, id, args.at("sketch"), {{0, bytes("sketch"), sketch}});
  Content gradient;
  gradient.meaning = left;
  gradient.meaning.what = Means::Gradient;
  gradient.meaning.version = 0;
  gradient.pattern = patterns_.uniform(product);
  gradient.origin = -part.offset * size;
  put(run, id, args.at("grad"), {{0, bytes("grad"), gradient}});
  return true;
}

/// Checks that what a unit keeps of its products is of this step.
void Values::check_low_rank_after(RoleRun& run, const Unit& unit, OpId end) {
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const UnitParameter& part = unit.parameters[i];
    if (part.low_rank == 0) continue;
    bool summed = true;
    unit.each_state([&](const StateRow& row, BufferId state) {
      if (row.keeper != Keeper::Reduction) return;
      const bool factors = row.extent == Extent::Factors;
      const std::int64_t size = size_of(run.role.buffer(state).dtype);
      const std::int64_t from = factors ? sketch_offset(program_, unit, i) : part.offset;
      const std::int64_t to = factors ? sketch_offset(program_, unit, i + 1)
                                      : part.offset + held_elements(program_, unit, part);
      std::vector<Held> held;
      holds(run, run.ranges.part(state, from * size, (to - from) * size, Access::Read), held);
      const std::optional<Content> all = unite(held);
      summed = summed && all && all->meaning.version == 1;
    });
    if (summed) continue;
    fault(run, end,
          "the step ends, but nothing has summed the gradient of " +
              program_.parameters[part.parameter].name + " as a product");
    return;
  }
}

}  // namespace lockstep::verification
