#include "core/lower/reduce/low_rank.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/draft/one_kernel.hpp"
#include "core/lower/draft/op_writer.hpp"

namespace lockstep {
namespace {

/// A product of low rank and the functions that make it. "grad" is the matrix [rows, cols], "left"
/// [rows, rank], "right" and "sketch" [cols, rank], and "feedback" as large as "grad".
class Product {
 public:
  Product(MatrixShape shape, int rank, DType type, bool feedback)
      : rows_(shape.rows), cols_(shape.cols), rank_(rank), type_(type), feedback_(feedback) {}

  /// grad += feedback, which becomes a copy of it; left = grad sketch, of which the columns are
  /// made orthonormal first, so that no part of a gradient drowns in another.
  Function project() {
    begin("project");
    const int grad = formal("grad", Access::ReadWrite, rows_ * cols_);
    const int kept = feedback_ ? formal("feedback", Access::ReadWrite, rows_ * cols_) : -1;
    const int sketch = formal("sketch", Access::ReadWrite, cols_ * rank_);
    const int left = formal("left", Access::Write, rows_ * rank_);
    if (feedback_) {
      copy(kept, grad, rows_ * cols_, true);
      copy(grad, kept, rows_ * cols_, false);
    }
    orthonormalize(sketch, cols_, true);
    multiply({rows_, rank_, cols_, 0, 0}, grad, sketch, left, false);
    return std::move(function_);
  }
  /// The columns of left become orthonormal; right = the transpose of grad, times left.
  Function factor() {
    begin("factor");
    const int grad = formal("grad", Access::Read, rows_ * cols_);
    const int left = formal("left", Access::ReadWrite, rows_ * rank_);
    const int right = formal("right", Access::Write, cols_ * rank_);
    orthonormalize(left, rows_, false);
    multiply({cols_, rank_, rows_, 1, 0}, grad, left, right, false);
    return std::move(function_);
  }
  /// grad = left times the transpose of right, feedback -= that over the number of ranks; the next
  /// step begins with right.
  Function restore(int ranks) {
    begin("restore");
    const int left = formal("left", Access::Read, rows_ * rank_);
    const int right = formal("right", Access::Read, cols_ * rank_);
    const int kept = feedback_ ? formal("feedback", Access::ReadWrite, rows_ * cols_) : -1;
    const int sketch = formal("sketch", Access::Write, cols_ * rank_);
    const int grad = formal("grad", Access::Write, rows_ * cols_);
    function_.name += "." + std::to_string(ranks);
    if (feedback_) {
      Kernel scale = bare_kernel(KernelKind::Scale, type_, {cols_ * rank_}, {-1.0 / ranks});
      scale.in = {operand(right)};
      scale.out = {operand(sketch)};
      function_.kernels.push_back(std::move(scale));
      multiply({rows_, cols_, rank_, 0, 1}, left, sketch, kept, true);
    }
    copy(right, sketch, cols_ * rank_, false);
    multiply({rows_, cols_, rank_, 0, 1}, left, right, grad, false);
    return std::move(function_);
  }

 private:
  void begin(const char* what) {
    function_ = {};
    function_.name = std::string("power_sgd.") + what + "." + std::to_string(rows_) + "x" +
                     std::to_string(cols_) + "." + std::to_string(rank_) +
                     (feedback_ ? "" : ".alone");
  }
  int formal(const char* name, Access access, std::int64_t elements) {
    function_.formals.push_back({name, access, Bytes{elements * size_of(type_)}});
    return static_cast<int>(function_.formals.size()) - 1;
  }
  Operand operand(int formal) const { return {static_cast<std::int16_t>(formal), type_, 0}; }
  void copy(int from, int to, std::int64_t elements, bool add) {
    Kernel sum = bare_kernel(KernelKind::ColumnSum, type_, {1, elements});
    sum.accumulate = add;
    sum.in = {operand(from)};
    sum.out = {operand(to)};
    function_.kernels.push_back(std::move(sum));
  }
  void orthonormalize(int basis, std::int64_t rows, bool fill) {
    // A column that others make up has its own rounding errors left.
    const double eps = type_ == DType::F64 ? 1e-11 : 1e-5;
    Kernel kernel =
        bare_kernel(KernelKind::Orthonormalize, type_, {rows, rank_}, {eps, fill ? 1.0 : 0.0});
    kernel.out = {operand(basis)};
    function_.kernels.push_back(std::move(kernel));
  }
  void multiply(std::array<std::int64_t, kMaxDims> dims, int a, int b, int c, bool add) {
    Kernel product = bare_kernel(KernelKind::Gemm, type_, dims);
    product.accumulate = add;
    product.in = {operand(a), operand(b), {}, {}};
    product.out = {operand(c)};
    function_.kernels.push_back(std::move(product));
  }

  const std::int64_t rows_, cols_;
  const int rank_;
  const DType type_;
  const bool feedback_;
  Function function_;
};

/// The sum of one bucket.
class BucketSum : OpWriter {
 public:
  BucketSum(Draft& draft, DraftRole& out, GroupId group, std::size_t place,
            std::vector<Insertion>& insertions)
      : OpWriter{draft, out.role, Phase::None, -1, -1, Stream::Reduce, &insertions, place},
        out_(out),
        group_(group),
        ranks_(group.valid() ? group_size(draft.program.mesh, draft.program.group(group)) : 1),
        type_(draft.dtype_of(BufferKind::Grad)) {}

  void run(const std::vector<BucketPart>& bucket) {
    std::vector<Factors> all;
    std::vector<BucketPart> rest;
    std::int64_t lefts = 0, rights = 0, others = 0;
    for (const BucketPart& part : bucket) {
      const UnitParameter& p = parameter(part);
      if (p.low_rank == 0) {
        rest.push_back(part);
        others += elements(part);
        continue;
      }
      const MatrixShape shape = matrix_shape(draft.program.parameters[p.parameter]);
      all.push_back({part, shape, p.low_rank, lefts, rights});
      lefts += shape.rows * p.low_rank;
      rights += shape.cols * p.low_rank;
    }
    const BufferId left = flat("left_factors", lefts), right = flat("right_factors", rights);
    const bool feeds_back = draft.scenario.strategy.power_sgd.use_error_feedback;
    for (const Factors& f : all) {
      std::vector<BufferId> args = {gradient(f.part)};
      if (feeds_back) args.push_back(feedback(f.part));
      args.insert(args.end(), {sketch(f.part), left_of(left, f)});
      call_for(f.part, Product(f.shape, f.rank, type_, feeds_back).project(), args);
    }
    add_up(left);
    for (const Factors& f : all) {
      call_for(f.part, Product(f.shape, f.rank, type_, feeds_back).factor(),
               {gradient(f.part), left_of(left, f), right_of(right, f)});
    }
    add_up(right);
    for (const Factors& f : all) {
      std::vector<BufferId> args = {left_of(left, f), right_of(right, f)};
      if (feeds_back) args.push_back(feedback(f.part));
      args.insert(args.end(), {sketch(f.part), gradient(f.part)});
      call_for(f.part, Product(f.shape, f.rank, type_, feeds_back).restore(ranks_), args);
    }
    if (group_.valid() && others > 0) add_up_rest(rest, flat("uncompressed", others));
  }

 private:
  struct Factors {
    BucketPart part;
    MatrixShape shape;
    int rank;
    std::int64_t left, right;  // where its factors begin, in elements
  };

  const UnitParameter& parameter(const BucketPart& part) const {
    return role.units[part.unit].parameters[part.parameter];
  }
  std::int64_t elements(const BucketPart& part) const {
    return held_elements(draft.program, role.units[part.unit], parameter(part));
  }
  BufferId view(BufferId of, std::int64_t begin, std::int64_t count) {
    const std::int64_t size = size_of(type_);
    return add_view(role, of, begin * size, Bytes{count * size});
  }
  BufferId gradient(const BucketPart& part) {
    return view(out_.units[part.unit].grad, parameter(part).offset, elements(part));
  }
  BufferId feedback(const BucketPart& part) {
    return view(role.units[part.unit].states[StateKind::Feedback], parameter(part).offset,
                elements(part));
  }
  BufferId sketch(const BucketPart& part) {
    const Unit& unit = role.units[part.unit];
    const std::int64_t begin = sketch_offset(draft.program, unit, part.parameter);
    const std::int64_t end = sketch_offset(draft.program, unit, part.parameter + 1);
    return view(unit.states[StateKind::Sketch], begin, end - begin);
  }
  BufferId left_of(BufferId lefts, const Factors& f) {
    return view(lefts, f.left, f.shape.rows * f.rank);
  }
  BufferId right_of(BufferId rights, const Factors& f) {
    return view(rights, f.right, f.shape.cols * f.rank);
  }
  BufferId flat(const char* name, std::int64_t count) const {
    return buffer(BufferKind::Comm, name, count, type_);
  }
  void call_for(const BucketPart& part, const Function& function,
                const std::vector<BufferId>& args) {
    layer = layer_of(out_, part.unit);
    call(function, args);
    layer = -1;
  }
  void add_up(BufferId factors) const {
    if (group_.valid()) communicate(OpKind::AllReduce, Stream::Reduce, group_, {factors});
  }
  void add_up_rest(const std::vector<BucketPart>& rest, BufferId together) {
    const auto copy_all = [&](bool in) {
      std::int64_t at = 0;
      for (const BucketPart& part : rest) {
        const std::int64_t count = elements(part);
        const BufferId own = gradient(part), other = view(together, at, count);
        layer = layer_of(out_, part.unit);
        call(copy_function(draft, count, type_, type_, false),
             {in ? own : other, in ? other : own});
        at += count;
      }
      layer = -1;
    };
    copy_all(true);
    add_up(together);
    copy_all(false);
  }

  DraftRole& out_;
  const GroupId group_;
  const int ranks_;
  const DType type_;
};

}  // namespace

void declare_low_rank(Draft& draft, DraftRole& out, std::size_t u, GroupId group) {
  const PowerSgdSpec& what = draft.scenario.strategy.power_sgd;
  const DType type = draft.dtype_of(BufferKind::Grad);
  Unit& unit = out.role.units[u];
  for (UnitParameter& part : unit.parameters) {
    const auto [rows, cols] = matrix_shape(draft.program.parameters[part.parameter]);
    const std::int64_t rank =
        std::min<std::int64_t>(what.matrix_approximation_rank, std::min(rows, cols));
    const double sent = static_cast<double>((rows + cols) * rank) * what.min_compression_rate;
    if (sent < static_cast<double>(rows * cols)) part.low_rank = static_cast<int>(rank);
  }
  const std::int64_t factors = sketch_offset(draft.program, unit, unit.parameters.size());
  if (factors == 0) return;
  const OpWriter writer{draft, out.role, Phase::None, layer_of(out, u)};
  const auto state = [&](const std::string& name, std::int64_t elements) {
    return writer.buffer(BufferKind::Optimizer, name, elements, type);
  };
  if (what.use_error_feedback)
    unit.states[StateKind::Feedback] = state(unit.name + ".feedback", unit.elements);
  unit.states[StateKind::Sketch] = state(unit.name + ".sketch", factors);
  unit.feedback_group = group;
}

void sum_low_rank(Draft& draft, DraftRole& out, const std::vector<BucketPart>& bucket,
                  GroupId group, std::size_t place, std::vector<Insertion>& insertions) {
  BucketSum(draft, out, group, place, insertions).run(bucket);
}

}  // namespace lockstep
