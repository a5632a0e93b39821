// Rules of placement for what is done once per update: sums of losses, the norm, the optimizers.
#include "core/ir/kernels/placement.hpp"

namespace lockstep {
namespace {

using namespace placing;

/// The squares of a shard fill blocks of their own in the sum, while those of a part are terms of
/// the sum over all parts.
bool norm_squared(const Kernel& k, AxisOperands& o) {
  const Along g = o.in[0];
  if (g != Along::Flat && g != Along::Split && g != Along::Same) return false;
  return results(k, o, {{g == Along::Split ? Along::Partial : g}});
}

/// The gradient, the weights and the optimizer's moments must be of the same part.
bool update(const Kernel& k, AxisOperands& o) {
  const Along w = o.out[0];
  if (w != Along::Same && w != Along::Flat && w != Along::Split) return false;
  for (std::size_t i = 1; i < k.out.size(); ++i) {
    if (o.out[i] != w) return false;
  }
  return o.in[0] == w && fits(o.in[1], Along::Same);
}

/// The direction lies as the gradient does, which must be of the same part as the momentum.
bool momentum(AxisOperands& o) {
  const Along g = o.in[0];
  if (g != Along::Same && g != Along::Flat && g != Along::Split) return false;
  if (o.out[0] != g || !fits(o.in[1], Along::Same)) return false;
  o.out[1] = g;
  return true;
}

/// The load of all experts, over all tokens: their mean is compared with each.
bool router_bias(AxisOperands& o) {
  return o.in[0] == Along::Same && fits(o.in[1], Along::Same) && o.out[0] == Along::Same &&
         o.out[1] == Along::Same;
}

/// The largest values of all ranks are the next scales of all.
bool delayed_scale(AxisOperands& o) { return router_bias(o); }

/// A replica's term of a mean over replicas. Without the factor that makes it a mean it would be no
/// term. What replicas started from must be the same for all. Along other axes the term lies as the
/// weights do.
bool replica_term(const Kernel& k, AxisOperands& o) {
  const Along w = o.in[0], from = o.in[1];
  if (w == Along::Replica) {
    if (!fits(from, Along::Same) || k.scalars[0] != 1.0 / o.ranks) return false;
    o.out[0] = Along::Partial;
    return true;
  }
  if ((w != Along::Same && w != Along::Flat && w != Along::Split) || !fits(from, w)) return false;
  o.out[0] = w;
  return true;
}

/// The way of all replicas together, the weights and the momentum must be of the same part.
bool outer_sgd(AxisOperands& o) {
  const Along w = o.out[0];
  return (w == Along::Same || w == Along::Flat || w == Along::Split) && o.out[1] == w &&
         o.in[0] == w;
}

}  // namespace

bool place_update(const Kernel& kernel, AxisOperands& operands) {
  switch (kernel.kind) {
    case KernelKind::Fill: {
      const Along made = kernel.scalars[0] == 0 ? Along::Zero : Along::Same;
      return results(kernel, operands, {{made}});
    }
    case KernelKind::Sum: {
      const Along x = operands.in[0];
      return (has_values(x) || x == Along::Partial) &&
             results(kernel, operands, {{sum_over_rows(x)}});
    }
    case KernelKind::NormSquared:
      return norm_squared(kernel, operands);
    case KernelKind::ClipCoefficient:
      return operands.in[0] == Along::Same && fits(operands.in[1], Along::Same) &&
             results(kernel, operands, {{Along::Same, Along::Same}});
    case KernelKind::AdamW:
    case KernelKind::Adam:
    case KernelKind::AdamW8bit:
    case KernelKind::Muon:
    case KernelKind::Sgd:
      return update(kernel, operands);
    case KernelKind::Momentum:
      return momentum(operands);
    case KernelKind::Normalize:  // by the norm of the whole
      return operands.in[0] == Along::Same && operands.in[1] == Along::Same &&
             results(kernel, operands, {{Along::Same}});
    case KernelKind::RouterBias:
      return router_bias(operands);
    case KernelKind::DelayedScale:
      return delayed_scale(operands);
    case KernelKind::ReplicaTerm:
      return replica_term(kernel, operands);
    case KernelKind::OuterSgd:
      return outer_sgd(operands);
    default:
      return false;
  }
}

}  // namespace lockstep
