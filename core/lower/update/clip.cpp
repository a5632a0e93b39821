#include "core/lower/update/clip.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/one_kernel.hpp"
#include "core/lower/draft/op_writer.hpp"

namespace lockstep {
namespace {

class Clipping : OpWriter {
 public:
  Clipping(Draft& draft, DraftRole& out)
      : OpWriter{draft, out.role, Phase::O}, out_(out), strategy_(draft.scenario.strategy) {}

  BufferId run() {
    std::vector<std::string> classes;  // split axes of the whole model: all stages sum together
    for (const UnitLayout& unit : draft.model.units) {
      if (unit.frozen || !unit.has_gradient()) continue;
      if (std::find(classes.begin(), classes.end(), unit.split_axis) == classes.end()) {
        classes.push_back(unit.split_axis);
      }
    }
    const auto degree = [&](const std::string& axis) {
      return divides_experts(axis) ? strategy_.expert_gradient_ranks() : strategy_.gradient_ranks();
    };
    const auto blocks = [&](const std::string& axis) {
      return degree(axis) /
             (divides_experts(axis) ? strategy_.expert_shards() : strategy_.state_shards());
    };
    int count = 0;
    for (const std::string& axis : classes) count += degree(axis);
    const DType sums = draft.dtype_of(BufferKind::Metric);
    BufferId squares;
    if (classes.size() == 1) {
      squares = squares_of(classes[0], metric("norm_squares", blocks(classes[0])));
      if (blocks(classes[0]) != count) {
        squares = gather_squares(classes[0], squares, metric("norm_squares_all", count));
      }
    } else {
      squares = metric("norm_squares_all", count);
      std::int64_t at = 0;
      for (const std::string& axis : classes) {
        const Bytes bytes{degree(axis) * size_of(sums)};
        const BufferId all = add_view(role, squares, at, bytes);
        at += bytes.v;
        if (blocks(axis) == degree(axis)) {
          squares_of(axis, all);
        } else {
          gather_squares(axis, squares_of(axis, metric("norm_squares", blocks(axis))), all);
        }
      }
    }
    const BufferId coefficient = metric("clip", 1);
    const BufferId norm = metric("grad_norm", 1);
    const bool scaled = out_.loss_scale.valid();
    std::vector<NamedOperand> in = {{"squares", sums}};
    std::vector<BufferId> args = {squares};
    if (scaled) {
      in.push_back({"loss_scale", DType::F32});
      args.push_back(out_.loss_scale);
    }
    args.insert(args.end(), {coefficient, norm});
    call(one_kernel("clip",
                    bare_kernel(KernelKind::ClipCoefficient, sums, {count},
                                {draft.scenario.training.max_norm}),
                    in, {{"coefficient", sums}, {"norm", sums}}),
         args);
    copy(OpKind::DeviceToHost, HostData::GradNorm, norm);
    if (draft.scenario.training.max_norm == 0 && !scaled) return {};
    return coefficient;
  }

 private:
  BufferId metric(const char* name, std::int64_t elements) const {
    return buffer(BufferKind::Metric, name, elements);
  }
  /// Sums into `squares` the squares of what the units that `axis` splits (no axis, if it is empty)
  /// hold in this replica.
  BufferId squares_of(const std::string& axis, BufferId squares) {
    const DType grad = draft.dtype_of(BufferKind::Grad);
    const DType sums = draft.dtype_of(BufferKind::Metric);
    const std::int64_t blocks = role.buffer(squares).bytes.v / size_of(sums);
    const std::string kind =
        divides_experts(axis) ? "experts." : "";  // experts may have fewer blocks
    bool first = true;
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      const Unit& unit = role.units[u];
      const UnitLayout& layout = layout_of(draft, out_.units[u]);
      if (layout.split_axis != axis || layout.frozen || !layout.has_gradient()) continue;
      if (unit.tied_copy) continue;  // it is counted on the first stage
      Kernel k = bare_kernel(KernelKind::NormSquared, grad, {unit.shard_elements, blocks});
      k.accumulate = !first;
      const std::string name = "norm_squared." + kind + std::to_string(unit.shard_elements);
      layer = layer_of(out_, u);
      call(one_kernel(first ? name : name + "+", k, {{"g", grad}}, {{"squares", sums}}),
           {out_.units[u].reduced, squares});
      first = false;
    }
    layer = -1;
    if (first) {  // this stage has no such unit
      call(one_kernel("zero_squares." + kind + std::to_string(blocks),
                      bare_kernel(KernelKind::Fill, sums, {blocks}), {}, {{"squares", sums}}),
           {squares});
    }
    if (!axis.empty())
      communicate(OpKind::AllReduce, Stream::Reduce, draft.axis_group(axis), {squares});
    if (strategy_.pipeline_parallel_degree > 1 && axis != "vocabulary") {
      communicate(OpKind::AllReduce, Stream::Reduce, draft.group("pp", {"pp"}), {squares});
    }
    return squares;
  }
  BufferId gather_squares(const std::string& axis, BufferId squares, BufferId all) {
    communicate(OpKind::AllGather, Stream::Reduce, shard_group(draft, axis), {squares, all});
    return all;
  }

  DraftRole& out_;
  const StrategySpec& strategy_;
};

}  // namespace

BufferId clip(Draft& draft, DraftRole& out) { return Clipping(draft, out).run(); }

}  // namespace lockstep
