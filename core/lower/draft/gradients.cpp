#include "core/lower/draft/gradients.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/index_vector.hpp"
#include "core/lower/draft/data_axes.hpp"

namespace lockstep {
namespace {

class MicrobatchSplitter {
 public:
  MicrobatchSplitter(Draft& draft, DraftRole& out, int group)
      : draft_(draft),
        out_(out),
        group_(group),
        unit_of_(out.role.buffers.size(), -1),
        found_of_(out.units.size()) {
    for (std::size_t u = 0; u < out.units.size(); ++u) {
      if (out.units[u].trained()) unit_of_[out.units[u].grad] = static_cast<int>(u);
    }
  }

  std::vector<MicrobatchGradient> run() {
    for (std::size_t i = 0; i < out_.role.ops.size(); ++i) {
      if (out_.role.ops[i].kind == OpKind::Call) redirect(i);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.ready < b.ready; });
    return std::move(found_);
  }

 private:
  /// Makes op `i` write the gradients of its microbatch: the first writer overwrites, later ones
  /// add.
  void redirect(std::size_t i) {
    Op& op = out_.role.ops[i];
    const std::vector<Formal>& formals = draft_.program.function(op.function()).formals;
    bool any = false;
    std::vector<std::string> added;
    for (std::size_t a = 0; a < op.args_count; ++a) {
      BufferId& arg = out_.role.args[op.args_begin + a];
      const int unit = unit_of_[arg];
      if (unit < 0) continue;
      any = true;
      const Found& found = gradient_of(to_size(unit), op);
      if (found.writer != std::pair<int, Microbatch>{op.layer, Microbatch{op.microbatch}})
        added.push_back(formals[a].name);
      found_[found.gradient].ready = i;
      arg = found_[found.gradient].buffer;
    }
    if (any) op.target = variant(op, added).v;
  }

  struct Found {
    std::size_t gradient;  // index into found_
    /// The layer that overwrites it, in one segment or more; other layers and later microbatches
    /// add.
    std::pair<int, Microbatch> writer;
  };
  const Found& gradient_of(std::size_t unit, const Op& op) {
    auto& known = found_of_[unit];
    // What is measured is not added up, but one for the whole step.
    const bool one = takes_largest(layout_of(draft_, out_.units[unit]));
    const auto [at, fresh] = known.try_emplace(one ? 0 : op.microbatch / group_,
                                               Found{found_.size(), {op.layer, op.microbatch}});
    if (fresh) {
      BufferId buffer = out_.units[unit].grad;  // the unit's buffer is that of the first microbatch
      if (known.size() > 1) buffer = add_buffer(out_.role, Buffer(out_.role.buffer(buffer)));
      if (!one) out_.role.buffers[buffer].microbatch = op.microbatch;
      found_.push_back({unit, buffer, 0});
    }
    return at->second;
  }

  /// The op's function in the variant that adds to the formals named, and to no others.
  FunctionId variant(const Op& op, const std::vector<std::string>& added) {
    const FunctionOrigin origin = draft_.origin(op.function());
    const auto [at, fresh] = variants_.try_emplace({origin.kind, origin.phase, origin.step, added});
    if (fresh) {
      const std::vector<LayerStep> steps = draft_.steps(origin.kind, origin.phase, added);
      at->second = draft_.function(std::get<Function>(steps[origin.step]), origin);
    }
    return at->second;
  }

  Draft& draft_;
  DraftRole& out_;
  const int group_;                     // number of microbatches
  IndexVector<BufferId, int> unit_of_;  // by buffer
  std::vector<MicrobatchGradient> found_;
  std::vector<std::map<int, Found>> found_of_;  // by unit and group
  std::map<std::tuple<int, Phase, std::size_t, std::vector<std::string>>, FunctionId> variants_;
};

}  // namespace

std::vector<MicrobatchGradient> split_by_microbatch(Draft& draft, DraftRole& out, int group) {
  return MicrobatchSplitter(draft, out, group).run();
}

FunctionId copy_function(ProgramBuilder& build, std::int64_t elements, DType from, DType to,
                         bool add) {
  Kernel sum;  // a column sum of one row
  sum.kind = KernelKind::ColumnSum;
  sum.dtype = from;
  sum.dims = {1, elements};
  sum.accumulate = add;
  sum.in = {{0, from, 0}};
  sum.out = {{1, to, 0}};
  Function function;
  const char* const name = add ? "add." : from == to ? "copy." : "cast.";
  function.name = name + std::to_string(elements);
  function.formals = {
      {"x", Access::Read, Bytes{elements * size_of(from)}},
      {"y", add ? Access::ReadWrite : Access::Write, Bytes{elements * size_of(to)}}};
  function.kernels = {sum};
  return build.function(function);
}

}  // namespace lockstep
