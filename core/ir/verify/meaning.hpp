// What the bytes of a program's buffers mean while verify follows it: whose values they are, and
// how the ranks' parts make up the whole.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/mix.hpp"
#include "core/ir/kernels/placement.hpp"
#include "core/ir/program.hpp"

namespace lockstep::verification {

/// The terms of a sum, by which two sums can be compared: they are equal if no term is missing from
/// one of them or counted twice. What is kept is the sum of the terms' hashes, which does not
/// depend on their order, and their number.
struct Terms {
  std::uint64_t hash = 0;
  std::int32_t count = 0;
  static Terms of(std::uint64_t term) { return {mix64(term + 1), 1}; }
  friend Terms operator+(Terms a, Terms b) { return {a.hash + b.hash, a.count + b.count}; }
  auto operator<=>(const Terms&) const = default;
};

enum class Means : std::uint8_t {
  Unknown,       // nothing wrote it, or the parts of a range have several meanings
  Zeros,         // zeros, which fit everything
  Data,          // what the host gives; `id` is its HostData
  Weights,       // the parameters of unit `id` after `version` updates
  State,         // what is kept of unit `id` under `state`, after `version` updates of it
  Way,           // how far the replicas have come in unit `id`, or, without `Outer`, where they are
  Tensor,        // a layer's; `id` names the formal under which a function wrote it
  Gradient,      // of unit `id`: the sum of `terms`, one for every use of the unit
  CodedWeights,  // codes of the parameters of unit `id` after `version` updates
  CodedGradient,  // codes of Gradient or Slices, for `version` ranks
  Slices,         // of a gradient: the sums over some ranks of the shards of the others
  Compensated,    // a gradient of unit `id` with what was left out of the last one
  LeftFactor,     // of parameter `version` of unit `id`: the gradient times its right factor
  Basis,          // a left factor of which the columns are orthonormal
  RightFactor,    // likewise: the gradient's transpose times its basis
  Direction,      // what momentum makes of the gradient of unit `id` for update `version`
  Orthogonal,     // a direction of unit `id` of which every matrix is orthogonal
  FactorSums,     // of rows and columns of squares of the gradient of unit `id`, and of its weights
  UpdateSquares,  // the sum of squares of what moves the weights of unit `id`
  Statistics,  // of unit `id`, which forward updates: `terms`, the last of them of `microbatch`; or
               // its factors
  Loss,        // the sum of `terms`, one for every microbatch
  Squares,     // of gradients: the sum of `terms`, one for every unit
  Coefficient,  // by which clipping multiplies the gradients
  Norm,         // of the gradients of all units
  Message,      // what receive number `id` will bring
};

struct Meaning {
  Means what = Means::Unknown;
  bool own : 1 = false;  // whether a function of the user's wrote it, or a part of it
  StateKind state : 7 = StateKind::Param;  // of Means::State alone
  std::int16_t layer = -1;
  Microbatch microbatch = -1;
  std::int32_t id = -1;
  std::int32_t version = 0;
  Terms terms;
  Meaning() = default;
  /// What is kept of a unit when a step begins, and what else belongs to it.
  static Meaning of(StateKind state, std::int32_t unit = -1) {
    Meaning m = of(info(state).is_parameters() ? Means::Weights : Means::State, unit);
    if (m.what == Means::State) m.state = state;
    return m;
  }
  static Meaning of(Means what, std::int32_t unit = -1) {
    Meaning m;
    m.what = what;
    m.id = unit;
    return m;
  }
  bool is(StateKind kind) const { return what == Means::State && state == kind; }
  bool operator==(const Meaning&) const = default;
};
static_assert(sizeof(Meaning) == 32 && kNumStateKinds <= 128);

/// Of codes in 8 bits and of their scales: how quantize made them. All is 0 of other values.
struct Codes {
  std::int64_t across = 0, along = 0;  // of the blocks that share a scale
  std::int64_t length = 0;             // of a row of the matrix
  std::int32_t mantissa = 0;           // of the format
  auto operator<=>(const Codes&) const = default;
};

/// How the elements of a byte range lie on the ranks, and what type they have.
struct PlacedAs {
  Placement placement;
  DType dtype = DType::F32;
  Codes codes = {};
  auto operator<=>(const PlacedAs&) const = default;
};

/// How all elements of a buffer or of a part of it lie on the ranks, piece by piece.
struct Pattern {
  struct Piece {
    std::int64_t begin = 0, end = 0;
    PlacedAs as;
    auto operator<=>(const Piece&) const = default;
  };
  std::vector<Piece> pieces;  // ascending and disjoint; a uniform pattern has one endless piece
  auto operator<=>(const Pattern&) const = default;
};
using PatternId = std::int32_t;  // index into Patterns; 0: nothing is written

/// A table that holds every pattern once, so that equal patterns have equal ids.
class Patterns {
 public:
  static constexpr std::int64_t kEndless = std::int64_t{1} << 62;
  Patterns() { intern({}); }
  PatternId intern(Pattern pattern);
  PatternId uniform(PlacedAs as) { return intern({{{0, kEndless, as}}}); }
  const Pattern& at(PatternId id) const { return *by_id_[id]; }
  bool is_uniform(PatternId id) const {
    const auto& pieces = at(id).pieces;
    return pieces.size() == 1 && pieces[0].end == kEndless;
  }

 private:
  std::map<Pattern, PatternId> ids_;
  IndexVector<PatternId, const Pattern*> by_id_;
};

/// What a byte range of a root buffer holds. Byte 0 of the pattern lies at `origin` in the buffer.
struct Content {
  Meaning meaning;
  PatternId pattern = 0;
  std::int64_t origin = 0;
  bool operator==(const Content&) const = default;
};

/// A part of what an argument holds. Its bytes [begin, end) and the `origin` of its content are
/// counted from the start of the argument.
struct Held {
  std::int64_t begin = 0, end = 0;
  Content content;
};

/// What a formal of a function stands for. Its name tells (see FunctionBuilder in core/model).
struct FormalRole {
  enum What : std::uint8_t { Tensor, Weights, Gradient, Statistics, Loss, X, Dy, Data };
  What what = Tensor;
  std::int32_t name =
      -1;  // the number of the formal's name, or of the tensor of which it is a part
  std::int32_t suffix = -1;  // of weights and gradients: the number of what follows "w" or "gw"
  HostData data = HostData::Tokens;
  std::int64_t begin = 0;  // of a part of a tensor (core/ir/parts.hpp): where it begins, in bytes
  /// Whether a call only adds terms of a sum to the formal.
  bool adds() const { return what == Gradient || what == Statistics || what == Loss; }
};

/// What the formals of a function are, by their names and its kernels.
IndexVector<int, FormalRole::What> what_formals_are(const Function& function);

/// What a function stands for (FunctionName).
struct FunctionRole {
  bool own = false;        // whether it is the user's
  std::int32_t kind = -1;  // the number of the layer's kind, such as "block"; -1: of no layer
  Phase phase = Phase::None;
  int segment = 0;
  IndexVector<int, FormalRole> formals;
};

/// An Exchange whose tensors are known by the numbers of their names.
struct NamedExchange {
  OpKind kind;
  FormalRole in, out;
};

/// What a function makes of the placements that it finds.
struct Summary {
  std::string fault;             // why a kernel refuses them; empty if none does
  std::vector<PatternId> after;  // by formal
  struct Term {                  // what a call adds to a sum, or begins one with
    int formal = 0;
    std::int64_t begin = 0, end = 0;
    PlacedAs as;
    bool accumulate = false;
    bool zeros = false;
    PatternId pattern = 0;  // uniform, as `as` says
  };
  std::vector<Term> terms;
};

/// The mesh axes along which placements are followed. These are all with more than one rank, except
/// "pp" if the roles along it differ and do not compute layers together, by units that are divided
/// along it and collectives that join their parts. What one stage alone holds counts as the same
/// along "pp".
std::vector<int> spread_axes(const Program& program);

/// Applies the kernels' rules of placement, once for every function and what it finds.
class Summaries {
 public:
  Summaries(const Program& program, Patterns& patterns);
  /// `found` has the pattern of every formal, and -1 where the function only adds a term of a sum.
  const Summary& of(FunctionId function, const std::vector<PatternId>& found);

 private:
  Summary make(const Function& function, const std::vector<PatternId>& found);
  const Program& program_;
  Patterns& patterns_;
  const std::vector<int> axes_;
  struct Known {
    std::vector<PatternId> found;
    Summary summary;
  };
  IndexVector<FunctionId, std::vector<Known>> known_;
};

}  // namespace lockstep::verification
