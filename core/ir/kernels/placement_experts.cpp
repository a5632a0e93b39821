// Rules of placement for mixtures of experts.
#include "core/ir/kernels/placement.hpp"

namespace lockstep {
namespace {

using namespace placing;

/// Rows that stand in places of experts: all of them, those of the rank's own rows, or those that
/// were sent to the rank's experts.
constexpr bool has_places(Along a) { return a == Along::Same || is_places(a) || is_experts(a); }

bool grouped_gemm(const Kernel& k, AxisOperands& o) {
  return expert_product(k, o, o.in[0], o.in[1], o.in[2]);
}

bool grouped_gemm_weight(const Kernel& k, AxisOperands& o) {
  return expert_gradient(k, o, o.in[0], o.in[1]);
}

/// The placement of indices into rows: if a rank has rows of its own, they count within these.
constexpr Along indices(Along rows) { return is_rows(rows) ? Along::Own : rows; }
/// The placement of how many rows in places, or rows that were sent to a rank's experts, there are
/// of each expert.
constexpr Along counts_of(Along places) {
  return is_experts(places)                             ? Along::OwnExperts
         : is_places(places)                            ? Along::Own
         : is_divided(places) || places == Along::Split ? Along::Same
                                                        : places;
}

bool ragged_gemm(const Kernel& k, AxisOperands& o) {
  const Along a = o.in[0];
  return o.in[3] == counts_of(a) && expert_product(k, o, a, o.in[1], o.in[2]);
}

bool ragged_gemm_weight(const Kernel& k, AxisOperands& o) {
  return o.in[2] == counts_of(o.in[0]) && expert_gradient(k, o, o.in[0], o.in[1]);
}

constexpr bool may_activate(Along a) { return has_places(a) || is_divided(a) || a == Along::Split; }
bool ragged_activation(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return may_activate(x) && o.in[1] == counts_of(x) && results(k, o, {{x}});
}
bool ragged_activation_backward(const Kernel& k, AxisOperands& o) {
  const Along dy = o.in[0];
  return may_activate(dy) && o.in[1] == dy && o.in[2] == counts_of(dy) && results(k, o, {{dy}});
}

/// Codes lie as the rows do, and so do scales. A scale that is known is the same everywhere, and
/// the largest value of a rank's rows is a term of the maximum over all.
bool ragged_quantize(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return may_activate(x) && o.in[1] == counts_of(x) && fits(o.in[2], Along::Same) &&
         results(k, o, {{x, x, maximum(x)}});
}
/// Weights may have one scale, which is then the same everywhere.
bool ragged_scaled_gemm(const Kernel& k, AxisOperands& o) {
  const auto& [a, b, a_scales, b_scales, counts, rest1, rest2, rest3] = o.in;
  return a_scales == a && (b_scales == b || b_scales == Along::Same) && counts == counts_of(a) &&
         expert_product(k, o, a, b, Along::Nothing);
}
bool ragged_scaled_gemm_weight(const Kernel& k, AxisOperands& o) {
  const auto& [dy, x, dy_scales, x_scales, counts, rest1, rest2, rest3] = o.in;
  return dy_scales == dy && x_scales == x && counts == counts_of(dy) &&
         expert_gradient(k, o, dy, x);
}

bool route_forward(const Kernel& k, AxisOperands& o) {
  const Along logits = o.in[0];
  if (logits == Along::Split || !has_values(logits) || !fits(o.in[1], Along::Same)) return false;
  const Along own = indices(logits);
  return results(k, o, {{logits, logits, own, own, own}});
}
/// Ranks with parts of one sequence balance their experts together, which route_balance does. The
/// coefficient `balance` of this kernel must then be 0.
bool route_backward(const Kernel& k, AxisOperands& o) {
  const Along probs = o.in[1];
  if (probs == Along::Tokens && k.scalars[0] != 0) return false;
  return has_values(probs) && o.in[0] == probs && o.in[2] == indices(probs) &&
         fits(o.in[3], Along::Same) && fits(o.in[4], indices(probs)) && results(k, o, {{probs}});
}
bool route_load(const Kernel& k, AxisOperands& o) {
  const Along slots = o.in[0];
  if (slots != Along::Same && slots != Along::Own) return false;
  if (!fits(o.in[1], slots)) return false;
  return results(k, o, {{slots == Along::Own ? Along::Partial : slots}});
}
/// Whether x are rows of what experts made of the tokens to which the gates belong.
constexpr bool returned(Along x, Along gates) { return x == in_places(gates); }

/// The load counts all tokens of a microbatch, but no other rank's samples.
bool route_balance(const Kernel& k, AxisOperands& o) {
  const Along probs = o.in[1];
  const Along load = probs == Along::Samples ? Along::Partial : Along::Same;
  return has_values(probs) && probs != Along::Split && o.in[0] == probs && o.in[2] == load &&
         fits(o.in[3], Along::Same) && results(k, o, {{probs}});
}
bool combine_forward(const Kernel& k, AxisOperands& o) {
  const auto& [x, gates, slots, resid, rest1, rest2, rest3, rest4] = o.in;
  return has_values(gates) && returned(x, gates) && slots == indices(gates) && fits(resid, gates) &&
         results(k, o, {{gates}});
}
bool combine_backward(const Kernel& k, AxisOperands& o) {
  const auto& [dy, x, gates, slots, rest1, rest2, rest3, rest4] = o.in;
  return has_values(gates) && dy == gates && returned(x, gates) && slots == indices(gates) &&
         results(k, o, {{in_places(gates), gates}});
}

/// Rows must be whole, because a row's gate is of all of its columns.
bool gate_forward(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return has_values(x) && x != Along::Split && o.in[1] == x && fits(o.in[2], x) &&
         results(k, o, {{x}});
}
bool gate_backward(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[1];
  return has_values(x) && x != Along::Split && o.in[0] == x && o.in[2] == x &&
         results(k, o, {{x, x}});
}

}  // namespace

namespace placing {

/// Products of rows in places with the experts' weights: with those of the rank's own experts, or
/// with those of all. Ranks that divide each expert make their part of its features of all rows,
/// which they have gathered or all have, or, of parts of these, terms of a sum.
bool expert_product(const Kernel& k, AxisOperands& o, Along a, Along b, Along bias) {
  if (b == Along::Split && is_divided(a)) {
    const Along made = a == Along::AllPlaces ? Along::SplitPlaces : Along::PartialPlaces;
    return bias == Along::Nothing && results(k, o, {{made}});
  }
  if (b == Along::Split && (a == Along::Same || a == Along::Split)) {
    return bias == Along::Nothing && results(k, o, {{product(a, b)}});
  }
  const Along weights = is_experts(a) ? Along::Split : Along::Same;
  return has_places(a) && b == weights && fits(bias, weights) && results(k, o, {{a}});
}

/// The gradients of these weights and of a bias.
bool expert_gradient(const Kernel& k, AxisOperands& o, Along dy, Along x) {
  if (is_divided(dy) && is_divided(x)) {
    return dy != x && results(k, o, {{Along::Split, Along::Split}});
  }
  if (dy == Along::Split || x == Along::Split) {
    const Along dw = weight_gradient(dy, x);
    return dw == Along::Split && results(k, o, {{dw, dy}});
  }
  if (!has_places(dy) || x != dy) return false;
  const Along dw = is_experts(dy) ? Along::Split : sum_over_rows(of_places(dy));
  return results(k, o, {{dw, dw}});
}

}  // namespace placing

bool place_experts(const Kernel& kernel, AxisOperands& operands) {
  switch (kernel.kind) {
    case KernelKind::GroupedGemm:
      return grouped_gemm(kernel, operands);
    case KernelKind::GroupedGemmWeight:
      return grouped_gemm_weight(kernel, operands);
    case KernelKind::RaggedGemm:
      return ragged_gemm(kernel, operands);
    case KernelKind::RaggedGemmWeight:
      return ragged_gemm_weight(kernel, operands);
    case KernelKind::RaggedQuantize:
      return ragged_quantize(kernel, operands);
    case KernelKind::RaggedScaledGemm:
      return ragged_scaled_gemm(kernel, operands);
    case KernelKind::RaggedScaledGemmWeight:
      return ragged_scaled_gemm_weight(kernel, operands);
    case KernelKind::RaggedActivationForward:
      return ragged_activation(kernel, operands);
    case KernelKind::RaggedActivationBackward:
      return ragged_activation_backward(kernel, operands);
    case KernelKind::RouteForward:
      return route_forward(kernel, operands);
    case KernelKind::RouteBackward:
      return route_backward(kernel, operands);
    case KernelKind::RouteLoad:
      return route_load(kernel, operands);
    case KernelKind::RouteBalance:
      return route_balance(kernel, operands);
    case KernelKind::CombineForward:
      return combine_forward(kernel, operands);
    case KernelKind::CombineBackward:
      return combine_backward(kernel, operands);
    case KernelKind::GateForward:
      return gate_forward(kernel, operands);
    case KernelKind::GateBackward:
      return gate_backward(kernel, operands);
    default:
      return false;
  }
}

}  // namespace lockstep
