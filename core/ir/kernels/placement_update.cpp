// Rules of placement for what is done once per update: sums of losses, the norm, the optimizers.
#include "core/ir/kernels/placement.hpp"

namespace lockstep {

using namespace placing;

namespace {

/// Whether the factors are those of what a rank has of the matrices, whose gradient is `g`.
bool fits_factors(const Kernel& k, Along g, Along row, Along col, Along shard) {
  if (g == Along::Matrices) return row == g && col == g && fits(shard, Along::Same);
  const bool split = g == Along::Split;
  return (g == Along::Flat || g == Along::Same || split) &&
         row == (split && k.dims[5] != 2 ? Along::Split : Along::Same) &&
         col == (split && k.dims[5] != 1 ? Along::Split : Along::Same) &&
         fits(shard, g == Along::Flat ? Along::Flat : Along::Same) &&
         (g != Along::Flat || shard == g);
}

}  // namespace

bool place_fill(const Kernel& k, AxisOperands& o) {
  return results(k, o, {{k.scalars[0] == 0 ? Along::Zero : Along::Same}});
}

bool place_sum(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return (has_values(x) || x == Along::Partial) && results(k, o, {{sum_over_rows(x)}});
}

bool place_clip(const Kernel& k, AxisOperands& o) {
  return o.in[0] == Along::Same && fits(o.in[1], Along::Same) &&
         results(k, o, {{Along::Same, Along::Same}});
}

/// By the norm of the whole.
bool place_normalize(const Kernel& k, AxisOperands& o) {
  return o.in[0] == Along::Same && o.in[1] == Along::Same && results(k, o, {{Along::Same}});
}

/// The squares of a shard fill blocks of their own in the sum, while those of a part are terms of
/// the sum over all parts.
bool place_norm_squared(const Kernel& k, AxisOperands& o) {
  const Along g = o.in[0];
  if (g != Along::Flat && g != Along::Split && g != Along::Same) return false;
  return results(k, o, {{g == Along::Split ? Along::Partial : g}});
}

/// The gradient, the weights and the optimizer's moments must be of the same part.
bool place_update(const Kernel& k, AxisOperands& o) {
  const Along w = o.out[0];
  if (w != Along::Same && w != Along::Flat && w != Along::Split) return false;
  for (std::size_t i = 1; i < k.out.size(); ++i) {
    if (o.out[i] != w) return false;
  }
  return o.in[0] == w && fits(o.in[1], Along::Same);
}

/// The direction lies as the gradient does, which must be of the same part as the momentum.
bool place_momentum(const Kernel& /*k*/, AxisOperands& o) {
  const Along g = o.in[0];
  if (g != Along::Same && g != Along::Flat && g != Along::Split) return false;
  if (o.out[0] != g || !fits(o.in[1], Along::Same)) return false;
  o.out[1] = g;
  return true;
}

/// What a rank has of matrices leaves terms of sums over those that share a shard of the unit with
/// it, and of the sums over what they divide. Where whole matrices are divided, it has all of its
/// own.
bool place_factor_sums(const Kernel& k, AxisOperands& o) {
  const Along g = o.in[0];
  if (o.in[2] != g || !fits(o.in[1], Along::Same)) return false;
  if (!fits(o.in[3], g == Along::Flat ? Along::Flat : Along::Same)) return false;
  switch (g) {
    case Along::Flat:
      return o.in[3] == g && results(k, o, {{Along::Partial, Along::Partial, Along::Partial}});
    case Along::Same:
    case Along::Matrices:
      return results(k, o, {{g, g, g}});
    case Along::Split: {
      const Along rows = k.dims[5] == 2 ? Along::Partial : g;
      const Along cols = k.dims[5] == 1 ? Along::Partial : g;
      return results(k, o, {{rows, cols, k.dims[5] == 0 ? g : Along::Partial}});
    }
    default:
      return false;
  }
}

/// The sums must be of all that was to be added up.
bool place_factor_moments(const Kernel& /*k*/, AxisOperands& o) {
  const Along sum = o.in[0];
  return (sum == Along::Same || sum == Along::Split || sum == Along::Matrices) && o.out[0] == sum &&
         fits(o.in[1], Along::Same);
}

bool place_factored_squares(const Kernel& k, AxisOperands& o) {
  const Along g = o.in[0];
  if (!fits_factors(k, g, o.in[2], o.in[3], o.in[4]) || !fits(o.in[1], Along::Same)) return false;
  const bool term = g == Along::Flat || (g == Along::Split && k.dims[5] != 0);
  return results(k, o, {{term ? Along::Partial : g}});
}

bool place_adafactor(const Kernel& k, AxisOperands& o) {
  const Along g = o.in[0];
  const bool whole = g == Along::Matrices || (g == Along::Split && k.dims[5] == 0);
  const Along of_all = whole ? g : Along::Same;
  return fits_factors(k, g, o.in[2], o.in[3], o.in[6]) && fits(o.in[1], Along::Same) &&
         o.in[4] == of_all && o.in[5] == of_all && o.out[0] == g && fits(o.out[1], g);
}

/// What is measured, of all ranks: the load of all experts over all tokens, whose mean is compared
/// with each, or the largest values of all, which are the next scales.
bool place_measured(const Kernel& /*k*/, AxisOperands& o) {
  return o.in[0] == Along::Same && fits(o.in[1], Along::Same) && o.out[0] == Along::Same &&
         o.out[1] == Along::Same;
}

/// A replica's term of a mean over replicas. Without the factor that makes it a mean it would be no
/// term. What replicas started from must be the same for all. Along other axes the term lies as the
/// weights do.
bool place_replica_term(const Kernel& k, AxisOperands& o) {
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
bool place_outer_sgd(const Kernel& /*k*/, AxisOperands& o) {
  const Along w = o.out[0];
  return (w == Along::Same || w == Along::Flat || w == Along::Split) && o.out[1] == w &&
         o.in[0] == w;
}

}  // namespace lockstep
