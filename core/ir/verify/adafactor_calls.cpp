#include <algorithm>

#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// Whether a function is a part of Adafactor's update: all its kernels are of one such kind, one
/// for each parameter of a unit, or two.
bool Values::factors(const Function& function) {
  const auto& kernels = function.kernels;
  return !kernels.empty() && info(kernels[0].kind).use == KernelUse::Parameters &&
         std::all_of(kernels.begin(), kernels.end(),
                     [&](const Kernel& k) { return k.kind == kernels[0].kind; });
}

/// The same as arguments(), but parts that are placed in several ways become one content.
bool Values::whole_arguments(RoleRun& run, OpId id, IndexVector<int, std::optional<Content>>& held,
                             std::vector<PatternId>& found) {
  if (!arguments(run, id, held, found)) return false;
  const Op& op = run.role.op(id);
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] || run.role.buffer(run.role.args_of(op)[i]).piece_of().valid()) continue;
    Content all;
    if (!content(run, run.ranges.touch(op, i), all)) return false;
    held[i] = all;
    found[i] = all.pattern;
  }
  return true;
}

/// Checks that the kernels are of the parameters of a unit, each once and in their order.
bool Values::of_parameters(RoleRun& run, OpId id, const Unit& unit) {
  const std::vector<Kernel>& kernels = program_.function(run.role.op(id).function()).kernels;
  bool fits = kernels.size() == unit.parameters.size();
  for (std::size_t i = 0; fits && i < kernels.size(); ++i) {
    const UnitParameter& part = unit.parameters[i];
    fits = kernels[i].dims[0] == unit.shard_elements && kernels[i].dims[1] == part.offset &&
           kernels[i].dims[4] == held_elements(program_, unit, part);
  }
  if (!fits) fault(run, id, "is not of each parameter of " + unit.name + ", in their order");
  return fits;
}

/// Follows the four parts of Adafactor's update of a unit. What is added up between them has to be
/// of all ranks, as the kernels' rules of placement say.
bool Values::factor_call(RoleRun& run, OpId id) {
  const Op& op = run.role.op(id);
  const Function& function = program_.function(op.function());
  const Kernel& kernel = function.kernels[0];
  const KernelKind kind = kernel.kind;
  IndexVector<int, std::optional<Content>> held(function.formals.size());
  std::vector<PatternId> found(held.size());
  if (!whole_arguments(run, id, held, found)) return false;
  const auto said = [&](int formal) {
    return held[formal] ? text(held[formal]->meaning) : std::string("several tensors");
  };
  const auto is = [&](int formal, Means what) {
    return held[formal] && held[formal]->meaning.what == what;
  };
  // Formals by what they are to hold. Several hold sums.
  const bool moments = kind == KernelKind::FactorMoments;
  const int g = moments ? -1 : kernel.in[0].formal;
  const int w = kind == KernelKind::FactorSums  ? kernel.in[2].formal
                : kind == KernelKind::Adafactor ? kernel.out[0].formal
                                                : -1;
  const int f = moments                          ? kernel.out[0].formal
                : kind == KernelKind::FactorSums ? -1
                                                 : kernel.in[2].formal;
  const int m = kind == KernelKind::Adafactor && kernel.out.size() > 1 ? kernel.out[1].formal : -1;
  UnitNumber unit_id = -1;
  std::int32_t version = -1;  // of the weights, before the update
  const auto same = [&](const Meaning& meaning, std::int32_t of) {
    if (unit_id < 0) unit_id = of;
    if (version < 0) version = meaning.version;
    return unit_id == of && version == meaning.version;
  };
  if (w >= 0) {
    if (!is(w, Means::Weights) || held[w]->origin != 0) {
      return fault(run, id, "reads " + said(w) + " as weights");
    }
    same(held[w]->meaning, held[w]->meaning.id);
  }
  if (f >= 0) {
    if (!is(f, Means::Statistics)) return fault(run, id, "reads " + said(f) + " as factors");
    Meaning before = held[f]->meaning;
    if (!moments) --before.version;
    const std::string& name = unit_name(before.id);
    const auto of = std::find_if(unit_ids_.begin(), unit_ids_.end(), [&](const auto& known) {
      return factors_of(known.first) == name;
    });
    if (of == unit_ids_.end() || !same(before, of->second)) {
      return fault(run, id,
                   "reads factors of " + name + " after " + number(held[f]->meaning.version) +
                       " updates beside what is of others");
    }
  }
  const auto sums = [&](const std::vector<Operand>& operands, std::size_t i, Means what) {
    for (const Kernel& k : function.kernels) {
      const int formal = (&operands == &kernel.in ? k.in : k.out)[i].formal;
      if (is(formal, what) && same(held[formal]->meaning, held[formal]->meaning.id)) continue;
      fault(run, id,
            "reads " + said(formal) + " in the place of " + text(Meaning::of(what, unit_id)));
      return false;
    }
    return true;
  };
  if (moments && !sums(kernel.in, 0, Means::FactorSums)) return true;
  if (kind == KernelKind::Adafactor &&
      (!sums(kernel.in, 4, Means::FactorSums) || !sums(kernel.in, 5, Means::UpdateSquares))) {
    return true;
  }
  const int u = run.units[unit_id];
  if (u < 0) return fault(run, id, "is of a unit that its rank does not have");
  const Unit& unit = run.role.units[u];
  if (!unit.factored) return fault(run, id, unit.name + " has no factors");
  if (version != std::max(op.microbatch, 0)) {
    return fault(run, id,
                 "is update " + number(version) + " of " + unit.name +
                     " in this step, but counted as " + number(op.microbatch));
  }
  if (!moments && !of_parameters(run, id, unit)) return true;
  if (g >= 0) {
    if (!held[g]) return fault(run, id, "reads several tensors as a gradient");
    if (!held[g]->meaning.own && held[g]->meaning.id != unit_id) {
      return fault(run, id, "updates " + unit.name + " with " + said(g));
    }
    if (!whole_gradient(run, id, *held[g], kernel.dims[0], version) || failed_) return true;
  }
  if (!reads_coefficient(run, id, kernel, held)) return true;
  if (m >= 0 && (!held[m] || !held[m]->meaning.is(StateKind::Moment1) ||
                 !same(held[m]->meaning, held[m]->meaning.id))) {
    return fault(run, id, "updates " + said(m) + " as the first moment of " + unit.name);
  }
  // Along the axes that divide experts a rank has other matrices, and not parts of the same ones.
  const std::vector<int> experts = expert_axes(unit);
  for (PatternId& pattern : found) {
    pattern = renamed(pattern, experts, Along::Split, Along::Matrices);
  }
  const Summary& summary = summaries_.of(op.function(), found);
  if (!summary.fault.empty()) return fault(run, id, unit.name + ": " + summary.fault);
  for (const int formal : function.formals.ids()) {
    if (function.formals[formal].access == Access::Read) continue;
    Content after;
    if (formal == w || formal == m || formal == f) {
      after = *held[formal];
      ++after.meaning.version;
    } else {
      after.meaning.what =
          kind == KernelKind::FactorSums ? Means::FactorSums : Means::UpdateSquares;
      after.meaning.id = unit_id;
      after.meaning.version = version;
      after.pattern =
          renamed(summary.after[to_size(formal)], experts, Along::Matrices, Along::Split);
    }
    put(run, id, to_size(formal), {{0, function.formals[formal].bytes.v, after}});
  }
  return true;
}

}  // namespace lockstep::verification
