#include <algorithm>

#include "core/ir/verify/values.hpp"

namespace lockstep::verification {

/// Whether a function may belong to the update, between the backward passes and the next step. Each
/// function of the update has one kernel.
bool Values::is_update(const Function& function) {
  if (function.kernels.size() != 1) return false;
  const Kernel& kernel = function.kernels[0];
  if (synchronizes(kernel)) return false;
  if (kernel.kind == KernelKind::ColumnSum) {
    return kernel.dims[0] == 1 && function.formals.size() == 2 && kernel.in[0].offset == 0 &&
           kernel.out[0].offset == 0 && kernel.in[0].formal == 0 && kernel.out[0].formal == 1;
  }
  if (kernel.kind == KernelKind::ToCodes || kernel.kind == KernelKind::FromCodes) return true;
  return info(kernel.kind).use != KernelUse::Layers;
}

bool Values::update_call(RoleRun& run, OpId id) {
  const Function& function = program_.function(run.role.op(id).function());
  const Kernel& kernel = function.kernels[0];
  switch (kernel.kind) {
    case KernelKind::ColumnSum:
      return copy(run, id, kernel);
    case KernelKind::Fill: {
      PlacedAs as{{}, kernel.out[0].dtype};
      const bool zero = kernel.scalars[0] == 0;
      for (const int axis : axes_) as.placement.set(axis, zero ? Along::Zero : Along::Same);
      Content made;
      made.meaning.what = zero ? Means::Zeros : Means::Unknown;
      made.pattern = patterns_.uniform(as);
      put(run, id, 0, {{0, function.formals[0].bytes.v, made}});
      return true;
    }
    case KernelKind::Sum:
      return sum_loss(run, id);
    case KernelKind::NormSquared:
      return square(run, id, kernel);
    case KernelKind::ClipCoefficient:
      return clip(run, id, kernel);
    case KernelKind::Momentum:
      return momentum(run, id, kernel);
    case KernelKind::ToCodes:
      return to_codes(run, id, kernel);
    case KernelKind::FromCodes:
      return from_codes(run, id, kernel);
    default:
      return update(run, id, kernel);
  }
}

/// Follows a copy, which may change the type, or the sum of two gradients.
bool Values::copy(RoleRun& run, OpId id, const Kernel& kernel) {
  std::vector<Held> from, to;
  if (!holds(run, id, 0, from)) return false;
  if (kernel.accumulate && !holds(run, id, 1, to)) return false;
  const DType type = kernel.out[0].dtype;
  const std::int64_t wide = size_of(type), narrow = size_of(kernel.in[0].dtype);
  for (Held& part : from) {
    Pattern pattern = patterns_.at(part.content.pattern);
    for (Pattern::Piece& piece : pattern.pieces) {
      if (part.content.meaning.what != Means::Zeros && piece.as.dtype != kernel.in[0].dtype) {
        return fault(run, id, "reads " + text(part.content.meaning) + ", which is of another type");
      }
      piece.as.dtype = type;
      if (piece.end == Patterns::kEndless) continue;
      piece.begin = piece.begin / narrow * wide;
      piece.end = piece.end / narrow * wide;
    }
    part.content.pattern = patterns_.intern(std::move(pattern));
    if (part.content.meaning.what == Means::Orthogonal) pieces_are_parts(run, part.content);
    part.begin = part.begin / narrow * wide;
    part.end = part.end / narrow * wide;
    part.content.origin = part.content.origin / narrow * wide;
  }
  if (from.empty()) return fault(run, id, "copies what nothing has written");
  if (run.role.op(id).phase == Phase::S) {
    std::optional<Content> all = unite(from);
    if (kernel.accumulate || !all) return fault(run, id, "synchronizes replicas by no one tensor");
    if (!take_result(run, id, *all)) return true;
    from = {{0, from.back().end, *all}};
  }
  if (kernel.accumulate) {
    const std::optional<Content> a = unite(from), b = unite(to);
    const bool sums = a && b && a->meaning.what == Means::Gradient &&
                      b->meaning.what == Means::Gradient && a->meaning.id == b->meaning.id &&
                      a->pattern == b->pattern && a->origin == b->origin;
    if (!sums) {
      return fault(run, id,
                   "adds " + (a ? text(a->meaning) : "several tensors") + " to " +
                       (b ? text(b->meaning) : "several tensors") +
                       ": not two gradients of one shard");
    }
    Content sum = *a;
    sum.meaning.terms = a->meaning.terms + b->meaning.terms;
    sum.meaning.own = a->meaning.own || b->meaning.own;
    from = {{0, to.back().end, sum}};
  }
  put(run, id, 1, from);
  return true;
}

bool Values::sum_loss(RoleRun& run, OpId id) {
  std::vector<Held> losses;
  if (!holds(run, id, 0, losses)) return false;
  if (losses.empty()) return fault(run, id, "sums what nothing has written");
  Content sum = losses.front().content;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const Content& c = losses[i].content;
    if (c.meaning.what != Means::Loss || c.pattern != sum.pattern) {
      return fault(run, id, "sums " + text(c.meaning) + ", not losses alone");
    }
    if (i > 0) sum.meaning.terms = sum.meaning.terms + c.meaning.terms;
  }
  sum.origin = 0;
  put(run, id, 1, {{0, run.ranges.touch(run.role.op(id), 1).end, sum}});
  run.loss = id;
  return true;
}

/// Checks that a gradient is all of its unit's shard. finish() checks later that it has all terms.
bool Values::whole_gradient(RoleRun& run, OpId id, const Content& gradient, std::int64_t elements,
                            std::int32_t version) {
  const Meaning& meaning = gradient.meaning;
  const bool user =
      meaning.own && (meaning.what == Means::Gradient || meaning.what == Means::Tensor);
  if (user) return true;
  if (meaning.what != Means::Gradient) {
    return fault(run, id, "reads " + text(meaning) + " as a gradient");
  }
  const int u = run.units[meaning.id];
  if (u < 0 || gradient.origin != 0 || run.role.units[u].shard_elements != elements) {
    return fault(run, id, "reads a part of " + text(meaning));
  }
  claims_.push_back({&run, id, meaning, version});
  return true;
}

bool Values::square(RoleRun& run, OpId id, const Kernel& kernel) {
  std::vector<Held> held, before;
  if (!holds(run, id, 0, held)) return false;
  if (kernel.accumulate && !holds(run, id, 1, before)) return false;
  const std::optional<Content> g = unite(held);
  if (!g) return fault(run, id, "reads as one gradient " + parts(run, held));
  if (!whole_gradient(run, id, *g, kernel.dims[0], -1) || failed_) return true;
  std::vector<PatternId> found = {g->pattern, 0};
  Content made;
  made.meaning.what = Means::Squares;
  made.meaning.own = g->meaning.own && (g->meaning.what != Means::Gradient || g->meaning.id < 0);
  made.meaning.terms = Terms::of(static_cast<std::uint64_t>(g->meaning.id));
  if (kernel.accumulate) {
    const std::optional<Content> b = unite(before);
    if (!b || b->meaning.what != Means::Squares) {
      return fault(run, id, "adds to what are not the squares of gradients");
    }
    made.meaning.terms = made.meaning.terms + b->meaning.terms;
    made.meaning.own = made.meaning.own || b->meaning.own;
    found[1] = b->pattern;
  }
  const Summary& summary = summaries_.of(run.role.op(id).function(), found);
  if (!summary.fault.empty()) return fault(run, id, text(g->meaning) + ": " + summary.fault);
  made.pattern = summary.after[1];
  put(run, id, 1, {{0, program_.function(run.role.op(id).function()).formals[1].bytes.v, made}});
  return true;
}

/// If the loss is scaled, the squares are of scaled gradients, and the scale must be divided out.
bool Values::reads_loss_scale(RoleRun& run, OpId id, const Kernel& kernel, PatternId& pattern) {
  const bool given = kernel.in.size() > 1 && kernel.in[1].present();
  if (given != program_.training.loss_scaling.has_value()) {
    return fault(run, id,
                 given ? "divides by a loss scale, which the training does not have"
                       : "does not divide by the loss scale");
  }
  if (!given) return true;
  std::vector<Held> held;
  if (!holds(run, id, 1, held)) return false;
  const std::optional<Content> scale = unite(held);
  if (!scale || scale->meaning.what != Means::Data ||
      scale->meaning.id != static_cast<std::int32_t>(HostData::LossScale)) {
    return fault(run, id, "reads " + parts(run, held) + " as the loss scale");
  }
  pattern = scale->pattern;
  return true;
}

bool Values::clip(RoleRun& run, OpId id, const Kernel& kernel) {
  std::vector<Held> squares;
  PatternId scale = 0;
  if (!holds(run, id, 0, squares) || !reads_loss_scale(run, id, kernel, scale)) return false;
  if (failed_) return true;
  Meaning sum;
  sum.what = Means::Squares;
  PatternId pattern = 0;
  for (const Held& part : squares) {
    if (part.content.meaning.what == Means::Zeros) continue;
    if (part.content.meaning.what != Means::Squares) {
      return fault(run, id, "reads " + text(part.content.meaning) + " as squares of gradients");
    }
    if (pattern != 0 && part.content.pattern != pattern) {
      return fault(
          run, id,
          "reads squares that are " + text(pattern) + " and " + text(part.content.pattern));
    }
    pattern = part.content.pattern;
    sum.terms = sum.terms + part.content.meaning.terms;
    sum.own = sum.own || part.content.meaning.own;
  }
  if (!sum.own && sum.terms != all_units_) {
    return fault(run, id,
                 "reads the squares of " + number(sum.terms.count) + " gradients: those of all " +
                     number(all_units_.count) + " units count, each once");
  }
  std::vector<PatternId> found = {pattern, 0, 0};
  if (scale != 0) found.insert(found.begin() + 1, scale);
  const std::size_t coefficient = found.size() - 2;
  const Summary& summary = summaries_.of(run.role.op(id).function(), found);
  if (!summary.fault.empty()) return fault(run, id, summary.fault);
  for (const std::size_t i : {coefficient, coefficient + 1}) {
    Content made;
    made.meaning.what = i == coefficient ? Means::Coefficient : Means::Norm;
    made.pattern = summary.after[i];
    const Touch touch = run.ranges.touch(run.role.op(id), i);
    put(run, id, i, {{0, touch.end - touch.begin, made}});
  }
  run.norm = id;
  return true;
}

/// If gradients are scaled, every update must read the coefficient, which divides the scale out.
/// Returns false after a fault.
bool Values::reads_coefficient(RoleRun& run, OpId id, const Kernel& kernel,
                               const IndexVector<int, std::optional<Content>>& held) {
  const int c = kernel.in.size() > 1 ? kernel.in[1].formal : -1;
  if (c >= 0) {
    if (held[c] && held[c]->meaning.what == Means::Coefficient) return true;
    fault(run, id,
          "reads " + (held[c] ? text(held[c]->meaning) : "several tensors") +
              " as the coefficient of clipping");
    return false;
  }
  if (!program_.training.loss_scaling) return true;
  fault(run, id,
        "updates weights with scaled gradients, and reads no coefficient, which divides the loss "
        "scale out");
  return false;
}

/// Follows AdamW or SGD, or the last part of Muon. Their gradient, weights and moments must be of
/// one unit and one shard.
bool Values::update(RoleRun& run, OpId id, const Kernel& kernel) {
  const Op& op = run.role.op(id);
  const Function& function = program_.function(op.function());
  IndexVector<int, std::optional<Content>> held(function.formals.size());
  std::vector<PatternId> found(function.formals.size());
  if (!arguments(run, id, held, found)) return false;
  const auto operand = [&](const std::vector<Operand>& operands, std::size_t i) {
    return i < operands.size() ? static_cast<int>(operands[i].formal) : -1;
  };
  const auto of = [&](int formal) -> const std::optional<Content>& { return held[formal]; };
  const std::int64_t elements = kernel.dims[0];
  const int w = operand(kernel.out, 0), g = operand(kernel.in, 0);
  if (!of(w) || of(w)->meaning.what != Means::Weights || of(w)->origin != 0) {
    return fault(run, id,
                 "updates " + (of(w) ? text(of(w)->meaning) : "several tensors") + " as weights");
  }
  const Meaning weights = of(w)->meaning;
  const int u = run.units[weights.id];
  if (u < 0) return fault(run, id, "updates a unit that its rank does not have");
  const Unit& unit = run.role.units[u];
  // What lies on a drive is updated in a copy; finish() sees that it comes back.
  const bool in_place =
      run.role.root(run.role.args_of(op)[to_size(w)]) == run.role.root(unit.updated());
  const bool staged = run.role.buffer(unit.updated()).tier == Tier::Drive;
  if (!unit.has(StateKind::Moment1) || unit.shard_elements != elements || (!in_place && !staged)) {
    return fault(run, id, "updates a part or a copy of the weights of " + unit.name);
  }
  if (kernel.kind == KernelKind::AdamW8bit && kernel.dims[1] != unit.state_block) {
    return fault(run, id,
                 "updates " + unit.name + " in blocks of " + number(kernel.dims[1]) +
                     ", but its moments have blocks of " + number(unit.state_block));
  }
  const std::int64_t length = kernel.kind == KernelKind::DelayedScale ? kernel.dims[1] : 0;
  if (length != unit.history) {
    return fault(run, id,
                 "updates " + unit.name + " by a history of " + number(length) +
                     " steps, but it keeps " + number(unit.history));
  }
  for (std::size_t i = 1; i < kernel.out.size(); ++i) {
    const int m = operand(kernel.out, i);
    const StateKind wanted = i == 1 ? StateKind::Moment1 : StateKind::Moment2;
    if (!of(m) || !of(m)->meaning.is(wanted) || of(m)->meaning.id != weights.id ||
        of(m)->origin != 0) {
      return fault(run, id,
                   "updates the weights of " + unit.name + " with " +
                       (of(m) ? text(of(m)->meaning) : "several tensors") + " in the place of " +
                       text(Meaning::of(wanted, weights.id)));
    }
    if (kernel.kind != KernelKind::Muon && of(m)->meaning.version != weights.version) {
      return fault(run, id,
                   "updates the weights of " + unit.name + " after " + number(weights.version) +
                       " updates with moments after " + number(of(m)->meaning.version));
    }
  }
  if (!of(g)) {
    std::vector<Held> parts_held;
    holds(run, id, to_size(g), parts_held);
    return fault(run, id, "reads as one gradient " + parts(run, parts_held));
  }
  if (!of(g)->meaning.own && of(g)->meaning.what == Means::Gradient &&
      of(g)->meaning.id != weights.id) {
    return fault(run, id, "updates the weights of " + unit.name + " with " + text(of(g)->meaning));
  }
  if (kernel.kind == KernelKind::Muon) {
    const Meaning& direction = of(g)->meaning;
    if (direction.what != Means::Orthogonal || direction.id != weights.id ||
        direction.version != weights.version || of(g)->origin != 0) {
      return fault(run, id, "moves the weights of " + unit.name + " by " + text(direction));
    }
  } else if (!whole_gradient(run, id, *of(g), elements, weights.version) || failed_) {
    return true;
  }
  if (!reads_coefficient(run, id, kernel, held)) return true;
  const Summary& summary = summaries_.of(op.function(), found);
  if (!summary.fault.empty()) {
    return fault(run, id, "updates " + unit.name + ": " + summary.fault);
  }
  if (std::max(op.microbatch, 0) != weights.version) {
    return fault(run, id,
                 "is update " + number(weights.version) + " of " + unit.name +
                     " in this step, but counted as " + number(op.microbatch));
  }
  Content after = *of(w);
  ++after.meaning.version;
  put(run, id, to_size(w), {{0, elements * size_of(kernel.out[0].dtype), after}});
  for (std::size_t i = 1; i < kernel.out.size() && kernel.kind != KernelKind::Muon; ++i) {
    const int m = operand(kernel.out, i);
    Content moment = *of(m);
    ++moment.meaning.version;
    put(run, id, to_size(m),
        {{0, run.role.buffer(run.role.args_of(op)[to_size(m)]).bytes.v, moment}});
  }
  return true;
}

}  // namespace lockstep::verification
