// Placement: how the parts that ranks hold of one tensor make up the whole, per mesh axis, and what
// a kernel makes of its operands' placements. Its nearest relatives are DTensor's placements
// (PyTorch) and the varying axes of JAX's shard_map.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/index_vector.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep {

/// What the ranks along one mesh axis hold of a tensor.
enum class Along : std::uint16_t {
  Nothing,        // nothing: the operand is absent, or not yet written
  Zero,           // zeros, which fit every placement
  Same,           // the same values everywhere
  Samples,        // rows of other samples
  Tokens,         // rows of other tokens of the same sequences
  Split,          // each its part of the columns, the heads or the vocabulary
  SplitSame,      // each its part of the queries, beside keys and values that are the same
  SplitPartial,   // each its part of the queries, beside terms of a sum for keys and values
  SamplePlaces,   // rows of other samples, each row in a place of the expert that it goes to
  TokenPlaces,    // the same of other tokens
  SampleExperts,  // each the rows of all ranks' samples that were sent to its part of the experts
  TokenExperts,   // the same of all ranks' tokens
  AllPlaces,      // the rows of all ranks' tokens in places, the same everywhere: gathered
  SplitPlaces,    // of these rows, each its part of the columns
  PartialPlaces,  // of these rows, a term of a sum
  Flat,           // each its shard of a flat unit
  Piece,          // the whole buffer, of which only the rank's own piece is up to date
  Partial,        // a term of a sum that has not been taken
  Own,            // statistics or indices of its own rows, which are no part of a whole
  OwnExperts,     // how many rows of its own each of the other ranks has sent to its experts
  Terms,          // each the terms of all ranks for its shard of a flat unit, not added up
  Largest,        // a term of a maximum that has not been taken
  Replica,        // what a replica that trains apart has made of its own, as if it were alone
  Matrices,       // each its part of a unit's matrices, which other ranks divide, for Adafactor
  // Values from here on have a count in their lower bits: passed() and attended() make them.
  Passed = 0x4000,    // the tokens of the rank that comes so many places before it
  Attended = 0x8000,  // its own tokens, which have met the keys of so many ranks
};
std::string_view to_string(Along along);
/// What ranks hold after they have passed rows of tokens on `times` times around `ranks` of them:
/// when the rows have come home they are Tokens again.
constexpr Along passed(int times, int ranks) {
  return times % ranks == 0 ? Along::Tokens
                            : static_cast<Along>(static_cast<int>(Along::Passed) + times % ranks);
}
/// The result of attention to the keys of `count` of `ranks` ranks: Tokens if it has met them all.
constexpr Along attended(int count, int ranks) {
  return count == ranks ? Along::Tokens
                        : static_cast<Along>(static_cast<int>(Along::Attended) + count);
}
/// How often rows of tokens have been passed on; -1 if they are not such rows.
constexpr int times_passed(Along a) {
  const int past = static_cast<int>(a) - static_cast<int>(Along::Passed);
  const bool away = a > Along::Passed && a < Along::Attended;
  return a == Along::Tokens ? 0 : away ? past : -1;
}
/// Whether every rank holds rows of its own.
constexpr bool is_rows(Along a) { return a == Along::Samples || a == Along::Tokens; }
constexpr bool is_places(Along a) { return a == Along::SamplePlaces || a == Along::TokenPlaces; }
constexpr bool is_experts(Along a) { return a == Along::SampleExperts || a == Along::TokenExperts; }
/// Rows in places of experts, and back; what is not rows stays as it is.
constexpr Along in_places(Along rows) {
  return rows == Along::Samples  ? Along::SamplePlaces
         : rows == Along::Tokens ? Along::TokenPlaces
                                 : rows;
}
constexpr Along of_places(Along places) {
  return places == Along::SamplePlaces  ? Along::Samples
         : places == Along::TokenPlaces ? Along::Tokens
                                        : places;
}

/// What the ranks along each of up to 8 mesh axes hold.
class Placement {
 public:
  constexpr Placement() = default;
  Along along(int axis) const { return along_[axis]; }
  void set(int axis, Along value) { along_[axis] = value; }
  auto operator<=>(const Placement&) const = default;

 private:
  IndexArray<int, Along, 8> along_{};
};

/// What ranks along one axis hold of a kernel's operands, which stand in the order of its row.
/// `out` has what lies there before the kernel, which matters where the kernel reads its outputs.
/// Absent operands are Nothing; inputs are never Zero, because zeros count as Same.
struct AxisOperands {
  std::array<Along, kMaxOperands> in{}, out{};
  int ranks = 1;  // along the axis
};

/// Sets `out` to what the kernel makes of its operands. Returns false if the result would mean
/// nothing: a kernel that is not linear reads a term of a sum, takes a part for the whole, or
/// combines parts of unlike wholes.
bool place(const Kernel& kernel, AxisOperands& operands);

/// The rules of the families of kernels, each family in a file of its own.
bool place_dense(const Kernel& kernel, AxisOperands& operands);
bool place_vision(const Kernel& kernel, AxisOperands& operands);
bool place_experts(const Kernel& kernel, AxisOperands& operands);
/// An optimizer's: the gradient, the weights and the states must be of the same part.
bool place_update(const Kernel& kernel, AxisOperands& operands);

// The rules of kernels that have one of their own (placement_update.cpp); their rows name them.
bool place_fill(const Kernel& kernel, AxisOperands& operands);
bool place_sum(const Kernel& kernel, AxisOperands& operands);
bool place_norm_squared(const Kernel& kernel, AxisOperands& operands);
bool place_clip(const Kernel& kernel, AxisOperands& operands);
bool place_measured(const Kernel& kernel, AxisOperands& operands);
bool place_momentum(const Kernel& kernel, AxisOperands& operands);
bool place_normalize(const Kernel& kernel, AxisOperands& operands);
bool place_factor_sums(const Kernel& kernel, AxisOperands& operands);
bool place_factor_moments(const Kernel& kernel, AxisOperands& operands);
bool place_factored_squares(const Kernel& kernel, AxisOperands& operands);
bool place_adafactor(const Kernel& kernel, AxisOperands& operands);
bool place_replica_term(const Kernel& kernel, AxisOperands& operands);
bool place_outer_sgd(const Kernel& kernel, AxisOperands& operands);

namespace placing {

/// The placement of x · w, which is contracted over the columns of x; Nothing if ranks cannot
/// compute it. They may have rows of their own, or make their part of the columns, or have their
/// part of what is contracted, which leaves terms of a sum.
Along product(Along x, Along w);
/// The placement of dyᵀ · x, which is contracted over the rows of all samples and tokens; Nothing
/// if ranks cannot compute it. Ranks with rows of their own have terms of a sum.
Along weight_gradient(Along dy, Along x);
/// The placement of a sum over rows. Ranks with rows of their own have terms of the sum over all.
Along sum_over_rows(Along x);
/// The placement of the largest value of all that ranks hold.
constexpr Along maximum(Along x) { return x == Along::Same ? x : Along::Largest; }
/// Whether a vector with one element per column, such as a bias, is absent or fits the matrix.
constexpr bool fits_columns(Along vector, Along matrix) {
  return vector == Along::Nothing ||
         vector == (matrix == Along::Split ? Along::Split : Along::Same);
}
/// Whether an operand is absent, or placed as `other`.
constexpr bool fits(Along optional, Along other) {
  return optional == Along::Nothing || optional == other;
}
/// Whether a function that is not linear may read it, since its elements are not terms of a sum.
constexpr bool has_values(Along a) { return a == Along::Same || is_rows(a) || a == Along::Split; }
/// All rows in places, gathered by ranks that divide each expert, or parts of their columns.
constexpr bool is_divided(Along a) { return a == Along::AllPlaces || a == Along::SplitPlaces; }
/// Sets the results of products of rows in places with the experts' weights, and of the gradients
/// of these. Return false if ranks cannot compute them.
bool expert_product(const Kernel& kernel, AxisOperands& operands, Along a, Along b, Along bias);
bool expert_gradient(const Kernel& kernel, AxisOperands& operands, Along dy, Along x);
/// Gives the outputs that are present their placements, in order. Returns false if one of them is
/// Nothing, or if an accumulating kernel would add to what is placed otherwise.
bool results(const Kernel& kernel, AxisOperands& operands, std::span<const Along> made);

}  // namespace placing
}  // namespace lockstep
