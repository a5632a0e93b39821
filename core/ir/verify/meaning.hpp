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

/// A sum's terms as a set: equal sums have equal terms, none twice and none missing. The hashes of
/// the terms are added up, which does not depend on their order.
struct Terms {
  std::uint64_t hash = 0;
  std::int32_t count = 0;
  static Terms of(std::uint64_t term) { return {mix64(term + 1), 1}; }
  friend Terms operator+(Terms a, Terms b) { return {a.hash + b.hash, a.count + b.count}; }
  auto operator<=>(const Terms&) const = default;
};

enum class Means : std::uint8_t {
  Unknown,      // nothing wrote it
  Zeros,        // fits everything
  Data,         // from the host; id: HostData
  Weights,      // of unit `id`, after `version` updates
  Moment1,      // of the optimizer, of unit `id`
  Moment2,      //
  Tensor,       // `id`: name of the formal under which a layer's function wrote it
  Gradient,     // of unit `id`: the sum of `terms`, one for every use of the unit
  Statistics,   // of unit `id`, which forward updates: `terms`, the last of them of `microbatch`
  Loss,         // `terms`: microbatches
  Squares,      // of gradients; `terms`: units
  Coefficient,  // of clipping
  Norm,         // of the gradient
  Message,      // not yet received; id: which receive
};

struct Meaning {
  Means what = Means::Unknown;
  bool own = false;  // a function of the user's wrote it, or a part of it
  std::int16_t layer = -1;
  Microbatch microbatch = -1;
  std::int32_t id = -1;
  std::int32_t version = 0;
  Terms terms;
  bool operator==(const Meaning&) const = default;
};

/// How elements lie on the ranks and what type they have.
struct PlacedAs {
  Placement placement;
  DType dtype = DType::F32;
  auto operator<=>(const PlacedAs&) const = default;
};

/// That of a byte range, piece by piece.
struct Pattern {
  struct Piece {
    std::int64_t begin = 0, end = 0;
    PlacedAs as;
    auto operator<=>(const Piece&) const = default;
  };
  std::vector<Piece> pieces;  // ascending, disjoint; one of endless length: uniform
  auto operator<=>(const Pattern&) const = default;
};
using PatternId = std::int32_t;  // index into Patterns; 0: nothing written

/// Every pattern once, so that equal ones have equal ids.
class Patterns {
 public:
  static constexpr std::int64_t kEndless = std::int64_t{1} << 62;
  Patterns() { intern({}); }
  PatternId intern(Pattern pattern);
  PatternId uniform(PlacedAs as) { return intern({{{0, kEndless, as}}}); }
  const Pattern& at(PatternId id) const { return *by_id_[static_cast<std::size_t>(id)]; }
  bool is_uniform(PatternId id) const {
    const auto& pieces = at(id).pieces;
    return pieces.size() == 1 && pieces[0].end == kEndless;
  }

 private:
  std::map<Pattern, PatternId> ids_;
  std::vector<const Pattern*> by_id_;
};

/// What a byte range of a root buffer holds: the pattern's byte 0 lies at `origin` of the buffer.
struct Content {
  Meaning meaning;
  PatternId pattern = 0;
  std::int64_t origin = 0;
  bool operator==(const Content&) const = default;
};

/// A part of what an argument holds: bytes [begin, end) from the argument's start, where `origin`
/// counts from, too.
struct Held {
  std::int64_t begin = 0, end = 0;
  Content content;
};

/// What a formal of a function is, by its name (see FunctionBuilder).
struct FormalRole {
  enum What : std::uint8_t { Tensor, Weights, Gradient, Statistics, Loss, X, Dy, Data };
  What what = Tensor;
  std::int32_t name = -1;    // of the formal
  std::int32_t suffix = -1;  // weights, gradient: name of what follows "w" and "gw"
  HostData data = HostData::Tokens;
  bool adds() const { return what == Gradient || what == Statistics || what == Loss; }
};

struct FunctionRole {
  bool own = false;
  std::int32_t kind = -1;  // of its layer, by name: "block"
  Phase phase = Phase::None;
  int segment = 0;
  std::vector<FormalRole> formals;
};

/// Exchange, its tensors by the numbers of their names.
struct NamedExchange {
  OpKind kind;
  FormalRole in, out;
};

/// What a function makes of the placements that it finds.
struct Summary {
  std::string fault;             // not empty: of a kernel, in words
  std::vector<PatternId> after;  // by formal
  struct Term {                  // added to, or begins, a sum
    std::size_t formal = 0;
    std::int64_t begin = 0, end = 0;
    PlacedAs as;
    bool accumulate = false;
    bool zeros = false;
  };
  std::vector<Term> terms;
};

/// Mesh axes with more than one rank, but for "pp" where roles differ along it.
std::vector<int> spread_axes(const Program& program);

/// Applies the kernels' rules once for every function and what it finds.
class Summaries {
 public:
  Summaries(const Program& program, Patterns& patterns);
  /// `found`: by formal, -1 where the function only adds a term of a sum.
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
  std::vector<std::vector<Known>> known_;  // by function
};

}  // namespace lockstep::verification
