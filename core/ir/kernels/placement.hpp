// Placement: how the parts that ranks hold of one tensor make up the whole, per mesh axis, and what
// a kernel makes of its operands' placements. The relatives are DTensor's placements (PyTorch) and
// the varying axes of JAX's shard_map.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/ir/kernels/kernel.hpp"

namespace lockstep {

/// What the ranks along one mesh axis hold of a tensor.
enum class Along : std::uint8_t {
  Nothing,        // absent operand, or not yet written
  Zero,           // zeros, which fit every placement
  Same,           // the same values everywhere
  Samples,        // rows of other samples
  Tokens,         // rows of other tokens of the same sequences
  Split,          // its part of the columns, heads or the vocabulary
  SplitSame,      // its part of the queries, beside keys and values that are the same
  SplitPartial,   // its part of the queries, beside terms of a sum for keys and values
  SamplePlaces,   // rows of other samples, each in a place of the expert that it goes to
  TokenPlaces,    // the same of other tokens
  SampleExperts,  // rows of all ranks' samples that were sent to its part of the experts
  TokenExperts,   // the same of all ranks' tokens
  Flat,           // its shard of a flat unit
  Piece,          // the whole buffer, of which only the rank's own piece is up to date
  Partial,        // a term of a sum that has not been taken
  Own,            // statistics or indices of its own rows: no part of one whole
};
std::string_view to_string(Along along);
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

/// The above for up to 8 mesh axes.
class Placement {
 public:
  constexpr Placement() = default;
  Along along(int axis) const { return static_cast<Along>(bits_ >> (4 * axis) & 0xf); }
  void set(int axis, Along value) {
    bits_ = (bits_ & ~(0xfU << (4 * axis))) | static_cast<std::uint32_t>(value) << (4 * axis);
  }
  auto operator<=>(const Placement&) const = default;

 private:
  std::uint32_t bits_ = 0;
};

/// One axis of a kernel: placements of `in` and of `out` (before the kernel, which matter where it
/// reads them) by position. Absent operands are Nothing; inputs are never Zero.
struct AxisOperands {
  std::array<Along, kMaxOperands> in{}, out{};
};

/// Sets `out` to what the kernel makes of it; false if the result would mean nothing: a partial sum
/// read by what is not linear, a part taken for the whole, parts of unlike wholes combined.
bool place(const Kernel& kernel, AxisOperands& operands);

/// Rules of the families, one per file.
bool place_dense(const Kernel& kernel, AxisOperands& operands);
bool place_vision(const Kernel& kernel, AxisOperands& operands);
bool place_experts(const Kernel& kernel, AxisOperands& operands);
bool place_update(const Kernel& kernel, AxisOperands& operands);

namespace placing {

/// rows × weights, contracted over columns: x may be split by rows, weights by what they make, or
/// both by what is contracted, which leaves terms of a sum. Nothing: no such product.
Along product(Along x, Along w);
/// dyᵀ · x, contracted over rows, which belong to all samples and tokens.
Along weight_gradient(Along dy, Along x);
/// Sum over rows: of the rank's own rows a term of the sum over all.
Along sum_over_rows(Along x);
/// A vector of columns beside a matrix: a weight, a bias.
constexpr bool fits_columns(Along vector, Along matrix) {
  return vector == Along::Nothing ||
         vector == (matrix == Along::Split ? Along::Split : Along::Same);
}
/// Absent, or placed as `other`.
constexpr bool fits(Along optional, Along other) {
  return optional == Along::Nothing || optional == other;
}
/// What a function that is not linear may read.
constexpr bool has_values(Along a) { return a == Along::Same || is_rows(a) || a == Along::Split; }
/// Gives out[0] and on, as far as present, one placement; it must be what accumulating kernels
/// find.
bool results(const Kernel& kernel, AxisOperands& operands, std::span<const Along> made);

}  // namespace placing
}  // namespace lockstep
