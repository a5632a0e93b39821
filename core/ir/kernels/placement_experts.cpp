// Rules of placement for mixtures of experts.
#include "core/ir/kernels/placement.hpp"

namespace lockstep {
namespace {

using namespace placing;

/// Rows that stand in places of experts: all of them, those of the rank's own rows, or those that
/// were sent to the rank's experts.
constexpr bool has_places(Along a) { return a == Along::Same || is_places(a) || is_experts(a); }

bool grouped_gemm(const Kernel& k, AxisOperands& o) {
  const auto& [a, b, bias, rest1, rest2, rest3, rest4, rest5] = o.in;
  const Along weights = is_experts(a) ? Along::Split : Along::Same;
  if (!has_places(a)) return false;
  return b == weights && fits(bias, weights) && results(k, o, {{a}});
}

bool grouped_gemm_weight(const Kernel& k, AxisOperands& o) {
  const Along dy = o.in[0];
  if (!has_places(dy) || o.in[1] != dy) return false;
  const Along dw = is_experts(dy) ? Along::Split : sum_over_rows(of_places(dy));
  return results(k, o, {{dw, dw}});
}

/// The placement of indices into rows: if a rank has rows of its own, they count within these.
constexpr Along indices(Along rows) { return is_rows(rows) ? Along::Own : rows; }
/// The placement of how many rows in places, or rows that were sent to a rank's experts, there are
/// of each expert.
constexpr Along counts_of(Along places) {
  return is_experts(places) ? Along::OwnExperts : is_places(places) ? Along::Own : places;
}

bool ragged_gemm(const Kernel& k, AxisOperands& o) {
  const auto& [a, b, bias, counts, rest1, rest2, rest3, rest4] = o.in;
  const Along weights = is_experts(a) ? Along::Split : Along::Same;
  return has_places(a) && counts == counts_of(a) && b == weights && fits(bias, weights) &&
         results(k, o, {{a}});
}

bool ragged_gemm_weight(const Kernel& k, AxisOperands& o) {
  const Along dy = o.in[0];
  if (!has_places(dy) || o.in[1] != dy || o.in[2] != counts_of(dy)) return false;
  const Along dw = is_experts(dy) ? Along::Split : sum_over_rows(of_places(dy));
  return results(k, o, {{dw, dw}});
}

bool ragged_activation(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return has_places(x) && o.in[1] == counts_of(x) && results(k, o, {{x}});
}
bool ragged_activation_backward(const Kernel& k, AxisOperands& o) {
  const Along dy = o.in[0];
  return has_places(dy) && o.in[1] == dy && o.in[2] == counts_of(dy) && results(k, o, {{dy}});
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
/// The load counts all tokens of a microbatch, but no other rank's samples.
bool route_balance(const Kernel& k, AxisOperands& o) {
  const Along probs = o.in[1];
  const Along load = probs == Along::Samples ? Along::Partial : Along::Same;
  return has_values(probs) && probs != Along::Split && o.in[0] == probs && o.in[2] == load &&
         fits(o.in[3], Along::Same) && results(k, o, {{probs}});
}
bool combine_forward(const Kernel& k, AxisOperands& o) {
  const auto& [x, gates, slots, resid, rest1, rest2, rest3, rest4] = o.in;
  return has_values(gates) && x == in_places(gates) && slots == indices(gates) &&
         fits(resid, gates) && results(k, o, {{gates}});
}
bool combine_backward(const Kernel& k, AxisOperands& o) {
  const auto& [dy, x, gates, slots, rest1, rest2, rest3, rest4] = o.in;
  return has_values(gates) && dy == gates && x == in_places(gates) && slots == indices(gates) &&
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
