// optimizer: global-norm clipping, AdamW or SGD per unit, and the metrics of the step.
#include <algorithm>
#include <array>
#include <string>

#include "core/lower/shard.hpp"

namespace lockstep {
namespace {

/// A function of one kernel whose operands are its formals, in the order in, then out.
Function one_kernel(std::string name, Kernel kernel, const std::vector<std::string>& in,
                    const std::vector<std::string>& out) {
  Function function;
  function.name = std::move(name);
  for (const std::string& formal : in) {
    Operand operand{static_cast<std::int16_t>(function.formals.size()), kernel.dtype, 0};
    if (formal.empty()) operand.formal = -1;
    kernel.in.push_back(operand);
    if (operand.present()) function.formals.push_back({formal, Access::Read, {}});
  }
  for (const std::string& formal : out) {
    kernel.out.push_back({static_cast<std::int16_t>(function.formals.size()), kernel.dtype, 0});
    function.formals.push_back({formal, Access::Write, {}});
  }
  const std::int64_t element = size_of(kernel.dtype);
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (!kernel.in[i].present()) continue;
    function.formals[static_cast<std::size_t>(kernel.in[i].formal)].bytes =
        Bytes{input_elements(kernel, i) * element};
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    Formal& formal = function.formals[static_cast<std::size_t>(kernel.out[i].formal)];
    formal.bytes = Bytes{output_elements(kernel, i) * element};
    if (output_is_read(kernel, i)) formal.access = Access::ReadWrite;
  }
  function.kernels.push_back(std::move(kernel));
  return function;
}

class OptimizerStep {
 public:
  OptimizerStep(Draft& draft, DraftRole& out)
      : draft_(draft), out_(out), strategy_(draft.scenario.strategy), dtype_(draft.program.dtype) {}

  void run() {
    BufferId coefficient;
    if (draft_.scenario.training.max_norm > 0) coefficient = clip();
    for (std::size_t u = 0; u < out_.units.size(); ++u) update(u, coefficient);
    if (out_.losses.valid()) report_loss();
  }

 private:
  BufferId metric(const char* name, std::int64_t elements) {
    Buffer buffer;
    buffer.bytes = Bytes{elements * size_of(dtype_)};
    buffer.kind = BufferKind::Metric;
    buffer.dtype = dtype_;
    buffer.name = draft_.name(name);
    return add_buffer(out_.role, buffer);
  }
  Kernel kernel(KernelKind kind, std::array<std::int64_t, kMaxDims> dims,
                std::array<double, 4> scalars = {}) const {
    Kernel k;
    k.kind = kind;
    k.dtype = dtype_;
    k.dims = dims;
    k.scalars = scalars;
    return k;
  }
  void call(const Function& function, const std::vector<BufferId>& args, int layer = -1) {
    Op op;
    op.kind = OpKind::Call;
    op.phase = Phase::O;
    op.target = draft_.function(function).v;
    op.layer = static_cast<std::int16_t>(layer);
    add_op(out_.role, op, args);
  }
  void communicate(OpKind kind, GroupId group, const std::vector<BufferId>& args) {
    Op op;
    op.kind = kind;
    op.stream = Stream::Reduce;
    op.phase = Phase::O;
    op.target = group.v;
    add_op(out_.role, op, args);
  }
  void to_host(HostData data, BufferId buffer) {
    Op op;
    op.kind = OpKind::DeviceToHost;
    op.stream = Stream::Copy;
    op.phase = Phase::O;
    op.target = static_cast<std::int32_t>(data);
    add_op(out_.role, op, {buffer});
  }

  /// The squared norm is summed over `dp` blocks of every unit: the same blocks whether they are
  /// one rank's shard (ZeRO, FSDP), parts of it (HYBRID_SHARD, where sizes divide) or of a replica
  /// (DDP), so that all give the same bits for the same gradients. Units that an axis splits are
  /// summed apart, and over that axis: each element counts once.
  BufferId clip() {
    std::vector<std::string> classes;  // split axes; of the whole model: all stages sum together
    for (const UnitLayout& unit : draft_.model.units) {
      if (std::find(classes.begin(), classes.end(), unit.split_axis) == classes.end()) {
        classes.push_back(unit.split_axis);
      }
    }
    const int dp = strategy_.data_parallel_degree();
    const int blocks = dp / strategy_.state_shards();
    const int count = dp * static_cast<int>(classes.size());
    BufferId squares;
    if (classes.size() == 1) {
      squares = squares_of(classes[0], metric("norm_squares", blocks));
      if (blocks != dp) squares = gather_squares(squares, metric("norm_squares_all", dp));
    } else {
      squares = metric("norm_squares_all", count);
      for (std::size_t c = 0; c < classes.size(); ++c) {
        const BufferId all =
            add_view(out_.role, squares, static_cast<std::int64_t>(c) * dp * size_of(dtype_),
                     Bytes{dp * size_of(dtype_)});
        if (blocks == dp) {
          squares_of(classes[c], all);
        } else {
          gather_squares(squares_of(classes[c], metric("norm_squares", blocks)), all);
        }
      }
    }
    const BufferId coefficient = metric("clip", 1);
    const BufferId norm = metric("grad_norm", 1);
    call(one_kernel(
             "clip",
             kernel(KernelKind::ClipCoefficient, {count}, {draft_.scenario.training.max_norm}),
             {"squares"}, {"coefficient", "norm"}),
         {squares, coefficient, norm});
    to_host(HostData::GradNorm, norm);
    return coefficient;
  }

  /// Sums into `squares` what the units split along `axis` (empty: by none) hold in this replica.
  BufferId squares_of(const std::string& axis, BufferId squares) {
    const std::int64_t blocks = out_.role.buffer(squares).bytes.v / size_of(dtype_);
    bool first = true;
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      const Unit& unit = out_.role.units[u];
      if (layout_of(draft_, out_.units[u]).split_axis != axis) continue;
      if (unit.tied_copy) continue;  // counted on the first stage
      Kernel k = kernel(KernelKind::NormSquared, {unit.shard_elements, blocks});
      k.accumulate = !first;
      const std::string name = "norm_squared." + std::to_string(unit.shard_elements);
      call(one_kernel(first ? name : name + "+", k, {"g"}, {"squares"}),
           {out_.units[u].reduced, squares}, layer(u));
      first = false;
    }
    if (first) {  // nothing of it on this stage
      call(one_kernel("zero_squares", kernel(KernelKind::Fill, {blocks}), {}, {"squares"}),
           {squares});
    }
    if (!axis.empty()) communicate(OpKind::AllReduce, draft_.axis_group(axis), {squares});
    if (strategy_.pipeline_parallel_degree > 1) {
      communicate(OpKind::AllReduce, draft_.group("pp", {"pp"}), {squares});
    }
    return squares;
  }
  BufferId gather_squares(BufferId squares, BufferId all) {
    communicate(OpKind::AllGather, shard_group(draft_), {squares, all});
    return all;
  }

  void update(std::size_t u, BufferId coefficient) {
    const Unit& unit = out_.role.units[u];
    const OptimizerSpec& o = draft_.scenario.optimizer;
    const bool clipped = coefficient.valid();
    std::vector<BufferId> args = {out_.units[u].reduced};
    if (clipped) args.push_back(coefficient);
    const BufferId own = unit.whole_param ? piece_of_param(unit) : unit.param;
    args.insert(args.end(), {own, unit.adam_m});
    if (unit.adam_v.valid()) args.push_back(unit.adam_v);
    const std::string elements = std::to_string(unit.shard_elements);
    const std::vector<std::string> in = {"g", clipped ? "coefficient" : ""};
    call(o.name == OptimizerKind::Sgd
             ? one_kernel(
                   "sgd." + elements,
                   kernel(KernelKind::Sgd, {unit.shard_elements}, {o.momentum, o.weight_decay}), in,
                   {"w", "m"})
             : one_kernel("adamw." + elements,
                          kernel(KernelKind::AdamW, {unit.shard_elements},
                                 {o.beta1, o.beta2, o.eps, o.weight_decay}),
                          in, {"w", "m", "v"}),
         args, layer(u));
    if (!unit.whole_param) return;
    Op gather = collective(OpKind::AllGather, Stream::Gather, unit.shard_group, layer(u));
    gather.phase = Phase::O;
    add_op(out_.role, gather, {own, unit.param});
  }
  BufferId piece_of_param(const Unit& unit) {
    return add_piece(out_.role, unit.param, unit.shard_group,
                     Bytes{unit.shard_elements * size_of(dtype_)});
  }

  void report_loss() {
    const std::int64_t m = out_.role.buffer(out_.losses).bytes.v / size_of(dtype_);
    const BufferId loss = metric("loss", 1);
    call(one_kernel("loss", kernel(KernelKind::Sum, {m}), {"losses"}, {"loss"}),
         {out_.losses, loss});
    std::vector<int> ends;  // pipeline ranks where some of the microbatches end
    for (std::size_t r = 0; r < draft_.roles.size(); ++r) {
      if (draft_.roles[r].losses.valid()) ends.push_back(static_cast<int>(r));
    }
    if (ends.size() > 1) communicate(OpKind::AllReduce, pipeline_group(draft_, ends), {loss});
    if (strategy_.data_parallel_degree() > 1) {
      communicate(OpKind::AllReduce, data_group(draft_), {loss});
    }
    to_host(HostData::Loss, loss);
  }
  int layer(std::size_t u) const { return layer_of(out_, u); }

  Draft& draft_;
  DraftRole& out_;
  const StrategySpec& strategy_;
  const DType dtype_;
};

}  // namespace

void optimizer(Draft& draft) {
  if (draft.model.units.empty()) return;  // synthetic: nothing to update
  for (DraftRole& role : draft.roles) {
    OptimizerStep(draft, role).run();
    std::vector<Unit>& units = role.role.units;
    units.insert(units.end(), role.statistics.begin(), role.statistics.end());
  }
}

}  // namespace lockstep
