#include <algorithm>

#include "core/base/interval_map.hpp"
#include "core/ir/verify/meaning.hpp"

namespace lockstep::verification {

PatternId Patterns::intern(Pattern pattern) {
  const auto [at, fresh] = ids_.try_emplace(std::move(pattern), by_id_.next());
  if (fresh) by_id_.push_back(&at->first);
  return at->second;
}

namespace {

/// Whether the ranks along `axis` compute layers together: they divide a unit and bring its parts
/// together by collectives. Where parts go round by messages instead, each rank has every part in
/// its turn, and their places along the axis say nothing of it.
bool divides_layers(const Program& program, int axis) {
  const auto along = [&](GroupId group) {
    if (!group.valid()) return false;
    const std::vector<int>& dims = program.group(group).dims;
    return std::find(dims.begin(), dims.end(), axis) != dims.end();
  };
  const auto divides = [&](const Unit& unit) { return along(unit.split_group); };
  const auto joins = [&](const Op& op) {
    return is_collective(op.kind) && op.kind != OpKind::AllReduce && along(op.group());
  };
  const auto& roles = program.roles;
  return std::any_of(
             roles.begin(), roles.end(),
             [&](const Role& r) { return std::any_of(r.units.begin(), r.units.end(), divides); }) &&
         std::any_of(roles.begin(), roles.end(),
                     [&](const Role& r) { return std::any_of(r.ops.begin(), r.ops.end(), joins); });
}

}  // namespace

std::vector<int> spread_axes(const Program& program) {
  std::vector<int> axes;
  const Mesh& mesh = program.mesh;
  for (const int axis : mesh.dims.ids()) {
    const MeshDim& dim = mesh.dims[axis];
    const bool stages =
        dim.name == "pp" && program.role_of_rank[0] !=
                                program.role_of_rank[mesh.with_coordinate(0, axis, dim.size - 1)];
    if (dim.size > 1 && (!stages || divides_layers(program, axis))) axes.push_back(axis);
  }
  return axes;
}

namespace {

/// Applies the rules of one function's kernels, in their order, to the patterns that it finds.
class Evaluation {
 public:
  Evaluation(const Program& program, const Function& function, const std::vector<int>& axes,
             const Patterns& patterns, const std::vector<PatternId>& found)
      : program_(program), function_(function), axes_(axes), states_(found.size()) {
    for (std::size_t f = 0; f < found.size(); ++f) {
      adds_.push_back(found[f] < 0);
      if (adds_[f]) continue;
      const std::int64_t bytes = function.formals[f].bytes.v;
      for (const Pattern::Piece& piece : patterns.at(found[f]).pieces) {
        states_[f].assign(std::max<std::int64_t>(piece.begin, 0), std::min(piece.end, bytes),
                          piece.as);
      }
    }
  }

  Summary run(Patterns& patterns) {
    for (const Kernel& kernel : function_.kernels) {
      if (!apply(kernel)) return std::move(summary_);
    }
    if (delays()) fill_written();
    for (std::size_t f = 0; f < states_.size(); ++f) {
      Pattern pattern;
      states_[f].visit(
          0, Patterns::kEndless, [&](std::int64_t begin, std::int64_t end, const PlacedAs& as) {
            auto& pieces = pattern.pieces;
            if (!pieces.empty() && pieces.back().end == begin && pieces.back().as == as) {
              pieces.back().end = end;
            } else {
              pieces.push_back({begin, end, as});
            }
          });
      const std::int64_t bytes = function_.formals[f].bytes.v;
      auto& pieces = pattern.pieces;
      if (pieces.size() == 1 && pieces[0].begin == 0 && pieces[0].end == bytes) {
        pieces[0].end = Patterns::kEndless;
      }
      summary_.after.push_back(adds_[f] ? 0 : patterns.intern(std::move(pattern)));
    }
    join_terms();
    for (Summary::Term& term : summary_.terms) term.pattern = patterns.uniform(term.as);
    return std::move(summary_);
  }

 private:
  bool delays() const {
    return std::any_of(function_.kernels.begin(), function_.kernels.end(),
                       [](const Kernel& k) { return k.kind == KernelKind::Delay; });
  }
  /// A delay stands for kernels that are not known. What its function may write then counts as
  /// written, and as the same on all ranks.
  void fill_written() {
    PlacedAs same;
    for (const int axis : axes_) same.placement.set(axis, Along::Same);
    for (std::size_t f = 0; f < states_.size(); ++f) {
      if (function_.formals[f].access != Access::Read) {
        states_[f].assign(0, function_.formals[f].bytes.v, same);
      }
    }
  }

  struct Range {
    int formal = 0;
    std::int64_t begin = 0, end = 0;
  };
  static Range range(const Operand& operand, std::int64_t elements) {
    return {operand.formal, operand.offset, operand.offset + elements * size_of(operand.dtype)};
  }
  bool is_zero(const PlacedAs& as) const {
    return !axes_.empty() && as.placement.along(axes_[0]) == Along::Zero;
  }

  bool fault(const Kernel& kernel, const std::string& what) {
    summary_.fault = std::string(info(kernel.kind).name) + ": " + what;
    return false;
  }
  std::string operand_name(std::string_view name, const Operand& operand) const {
    return std::string(name) + " (" + function_.formals[operand.formal].name + ")";
  }

  /// Finds the placement of an operand, which must be the same for all of it. Zeros fit what stands
  /// beside them. Returns false after a fault.
  bool read(const Kernel& kernel, std::string_view name, const Operand& operand,
            std::int64_t elements, PlacedAs& as) {
    const Range r = range(operand, elements);
    const auto& state = states_[r.formal];
    if (!state.covers(r.begin, r.end)) {
      return fault(kernel, operand_name(name, operand) + " reads what nothing has written");
    }
    bool first = true, mixed = false;
    state.visit(r.begin, r.end, [&](std::int64_t, std::int64_t, const PlacedAs& piece) {
      if (is_zero(piece)) return;
      mixed = mixed || (!first && piece != as);
      as = piece;
      first = false;
    });
    if (mixed) return fault(kernel, operand_name(name, operand) + " is of unlike placements");
    if (first) {
      as = {{}, operand.dtype};
      for (const int axis : axes_) as.placement.set(axis, Along::Zero);
    }
    if (as.dtype != operand.dtype) {
      return fault(kernel, operand_name(name, operand) + " holds " +
                               std::string(to_string(as.dtype)) + ", not " +
                               std::string(to_string(operand.dtype)));
    }
    return true;
  }

  bool apply(const Kernel& kernel) {
    if (kernel.in.size() > kMaxOperands || kernel.out.size() > kMaxOperands) return true;
    const KernelRow& row = info(kernel.kind);
    std::vector<PlacedAs> in(kernel.in.size()), out(kernel.out.size());
    for (std::size_t i = 0; i < kernel.in.size(); ++i) {
      if (!kernel.in[i].present()) continue;
      if (!read(kernel, row.in[i].name, kernel.in[i], input_elements(kernel, i), in[i]))
        return false;
    }
    for (std::size_t i = 0; i < kernel.out.size(); ++i) {
      if (!kernel.out[i].present() || !output_is_read(kernel, i)) continue;
      if (adds_[kernel.out[i].formal]) {
        for (const int axis : axes_) out[i].placement.set(axis, Along::Zero);
        continue;
      }
      if (!read(kernel, row.out[i].name, kernel.out[i], output_elements(kernel, i), out[i])) {
        return false;
      }
    }
    if (!codes_fit(kernel, in)) return false;
    for (const int axis : axes_) {
      AxisOperands operands;
      operands.ranks = program_.mesh.dims[axis].size;
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (!kernel.in[i].present()) continue;
        const Along along = in[i].placement.along(axis);
        operands.in[i] = along == Along::Zero ? Along::Same : along;
      }
      for (std::size_t i = 0; i < out.size(); ++i) operands.out[i] = out[i].placement.along(axis);
      const AxisOperands before = operands;
      if (!place(kernel, operands)) return refuse(kernel, before, axis);
      for (std::size_t i = 0; i < out.size(); ++i) out[i].placement.set(axis, operands.out[i]);
    }
    for (std::size_t i = 0; i < kernel.out.size(); ++i) {
      if (kernel.out[i].present()) write(kernel, i, out[i].placement);
    }
    return true;
  }

  /// How a kernel makes its output `i` of codes in 8 bits.
  static Codes codes_made(const Kernel& kernel, std::size_t i) {
    const auto mantissa = static_cast<std::int32_t>(kernel.scalars[0]);
    const auto& d = kernel.dims;
    if (i > 1) return {};  // the largest magnitude
    if (kernel.kind == KernelKind::RaggedQuantize) {
      return {1, d[5], d[4] != 0 ? d[7] : d[3], mantissa};
    }
    if (kernel.kind != KernelKind::Quantize) return {};
    return {d[3], d[4], d[d[2] != 0 ? 0 : 1], mantissa};
  }
  /// How a product in 8 bits takes its factor `i`; empty if it is none.
  static Codes codes_wanted(const Kernel& kernel, std::size_t i) {
    const auto mantissa = static_cast<std::int32_t>(kernel.scalars[i]);
    const auto& d = kernel.dims;
    switch (kernel.kind) {
      case KernelKind::ScaledGemm: {
        const bool beside = i == 1 && d[7] > 0 && kernel.scalars[3] != 0;
        return {d[3 + i], d[5], d[2] * (beside ? d[7] : 1), mantissa};
      }
      case KernelKind::RaggedScaledGemm: {
        const bool beside = i == 1 && kernel.scalars[2] != 0;
        return {i == 0 ? 1 : d[6], d[7], d[5] * (beside ? d[0] : 1), mantissa};
      }
      case KernelKind::RaggedScaledGemmWeight:
        return {1, d[6], d[2], mantissa};
      default:
        return {};
    }
  }
  /// Whether a product takes its factors as they were quantized. Another block would find the scale
  /// of other elements.
  bool codes_fit(const Kernel& kernel, const std::vector<PlacedAs>& in) {
    const std::size_t scales = kernel.kind == KernelKind::ScaledGemm ? 4 : 2;  // first of them
    for (const std::size_t factor : {0U, 1U}) {
      const Codes wanted = codes_wanted(kernel, factor);
      if (wanted == Codes{}) return true;
      for (const std::size_t i : {factor, factor + scales}) {
        if (in[i].codes == wanted) continue;
        return fault(kernel, operand_name(info(kernel.kind).in[i].name, kernel.in[i]) + " is " +
                                 text(in[i].codes) + ", but is multiplied as " + text(wanted));
      }
    }
    return true;
  }
  static std::string text(const Codes& codes) {
    if (codes.mantissa == 0) return "not what quantize makes";
    return "rows of " + std::to_string(codes.length) + " elements in blocks of " +
           std::to_string(codes.across) + " x " + std::to_string(codes.along) + " with " +
           std::to_string(codes.mantissa) + " bits of mantissa";
  }

  bool refuse(const Kernel& kernel, const AxisOperands& operands, int axis) {
    const KernelRow& row = info(kernel.kind);
    std::string what;
    const auto list = [&](const std::vector<Operand>& those, const std::vector<OperandRow>& rows,
                          const auto& placed) {
      for (std::size_t i = 0; i < those.size(); ++i) {
        if (!those[i].present() || placed[i] == Along::Nothing) continue;
        what += (what.empty() ? "" : ", ") + operand_name(rows[i].name, those[i]) + " is " +
                std::string(to_string(placed[i]));
      }
    };
    list(kernel.in, row.in, operands.in);
    list(kernel.out, row.out, operands.out);
    const std::string& name = program_.mesh.dims[axis].name;
    const bool terms = std::count(operands.in.begin(), operands.in.end(), Along::Partial) > 0;
    return fault(kernel, "along " + name + " " + what + ": these do not go together" +
                             (terms ? "; a sum over " + name + " is missing before it" : ""));
  }

  void write(const Kernel& kernel, std::size_t i, Placement placement) {
    const Operand& operand = kernel.out[i];
    const Range r = range(operand, output_elements(kernel, i));
    if (r.begin >= r.end) return;
    const PlacedAs as{placement, operand.dtype, codes_made(kernel, i)};
    if (adds_[r.formal] && !states_[r.formal].covers(r.begin, r.end)) {
      summary_.terms.push_back({r.formal, r.begin, r.end, as, output_is_read(kernel, i),
                                kernel.kind == KernelKind::Fill && kernel.scalars[0] == 0});
    }
    states_[r.formal].assign(r.begin, r.end, as);
  }

  /// Joins terms of one formal that follow each other and are alike.
  void join_terms() {
    auto& terms = summary_.terms;
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) {
      return a.formal != b.formal ? a.formal < b.formal : a.begin < b.begin;
    });
    std::vector<Summary::Term> joined;
    for (const Summary::Term& term : terms) {
      if (!joined.empty() && joined.back().formal == term.formal &&
          joined.back().end == term.begin && joined.back().as == term.as &&
          joined.back().accumulate == term.accumulate && joined.back().zeros == term.zeros) {
        joined.back().end = term.end;
      } else {
        joined.push_back(term);
      }
    }
    terms = std::move(joined);
  }

  const Program& program_;
  const Function& function_;
  const std::vector<int>& axes_;
  IndexVector<int, IntervalMap<PlacedAs>> states_;  // by formal
  IndexVector<int, bool> adds_;  // by formal: whether the function only adds terms of a sum to it
  Summary summary_;
};

}  // namespace

Summaries::Summaries(const Program& program, Patterns& patterns)
    : program_(program),
      patterns_(patterns),
      axes_(spread_axes(program)),
      known_(program.functions.size()) {}

const Summary& Summaries::of(FunctionId function, const std::vector<PatternId>& found) {
  auto& known = known_[function];
  for (const Known& k : known) {
    if (k.found == found) return k.summary;
  }
  known.push_back({found, make(program_.function(function), found)});
  return known.back().summary;
}

Summary Summaries::make(const Function& function, const std::vector<PatternId>& found) {
  return Evaluation(program_, function, axes_, patterns_, found).run(patterns_);
}

}  // namespace lockstep::verification
