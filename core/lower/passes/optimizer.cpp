// optimizer: adds clipping by the global norm, AdamW, Adam, SGD, Muon or Adafactor for each unit,
// and the metrics of the step.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "core/base/float8.hpp"
#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/passes/adafactor.hpp"
#include "core/lower/passes/muon.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/lower/passes/update_functions.hpp"

namespace lockstep {
namespace {

class OptimizerStep {
 public:
  OptimizerStep(Draft& draft, DraftRole& out)
      : draft_(draft),
        out_(out),
        strategy_(draft.scenario.strategy),
        muon_(draft, out),
        adafactor_(draft, out) {}

  void run() {
    if (!out_.updates.empty()) {
      update_under_way();
    } else {
      update_all(clip());
    }
    if (out_.losses.valid()) report_loss();
  }

 private:
  /// Updates all units. What Muon gathers of a unit comes while the one before it is updated, and
  /// what Adafactor adds up of all units while others are added up.
  void update_all(BufferId coefficient) {
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      if (factored(u)) adafactor_.sum(u, coefficient, weights_of(u));
    }
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      if (factored(u)) adafactor_.square(u, coefficient);
    }
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      if (!out_.units[u].trained()) continue;
      if (orthogonalizes(u)) {
        muon_.begin(u, coefficient);
        for (std::size_t next = u + 1; next < out_.units.size(); ++next) {
          if (!orthogonalizes(next)) continue;
          if (muon_.gathers(next)) muon_.begin(next, coefficient);
          break;
        }
      }
      update(u, coefficient);
    }
  }
  bool orthogonalizes(std::size_t u) const {
    return layout_of(draft_, out_.units[u]).orthogonalizes;
  }

  bool factored(std::size_t u) const { return out_.role.units[u].factored; }

  /// With several updates in a step, puts each where its last gradient is ready.
  void update_under_way() {
    Role& role = out_.role;
    std::vector<Insertion> insertions;
    const std::size_t end = role.ops.size();
    for (std::size_t k = 0; k < out_.updates.size(); ++k) {
      const DraftUpdate& next = out_.updates[k];
      for (std::size_t u = 0; u < out_.units.size(); ++u) {
        if (!out_.units[u].trained()) continue;
        out_.units[u].reduced = next.gradients[u];
        update(u, {});
      }
      for (std::size_t i = end; i < role.ops.size(); ++i) {
        const auto args = role.args_of(role.ops[i]);
        insertions.push_back({next.place, role.ops[i], {args.begin(), args.end()}});
        insertions.back().op.microbatch = static_cast<Microbatch>(k);
      }
      role.ops.resize(end);
    }
    insert_ops(role, std::move(insertions));
  }

  BufferId metric(const char* name, std::int64_t elements) {
    Buffer buffer;
    buffer.kind = BufferKind::Metric;
    buffer.dtype = dtype_of(buffer.kind);
    buffer.bytes = Bytes{elements * size_of(buffer.dtype)};
    buffer.name = draft_.name(name);
    return add_buffer(out_.role, buffer);
  }
  DType dtype_of(BufferKind kind) const { return draft_.dtype_of(kind); }
  void call(const Function& function, const std::vector<BufferId>& args, int layer = -1) {
    call(draft_.function(function), args, layer);
  }
  void call(FunctionId function, const std::vector<BufferId>& args, int layer) {
    Op op;
    op.kind = OpKind::Call;
    op.phase = Phase::O;
    op.target = function.v;
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

  /// Computes the global norm of the gradients. The squared norm is summed over `dp` blocks of
  /// every unit. The blocks are the same whether they are a rank's shard (ZeRO, FSDP), parts of one
  /// (HYBRID_SHARD, where sizes divide) or of a replica (DDP), so that all give the same bits for
  /// the same gradients. Units that an axis splits are summed separately, and then over that axis,
  /// so that each element counts once. Experts that are divided over `ep` of the data-parallel
  /// ranks have as many blocks as there are ranks that hold the same experts. The norm is a metric
  /// of every step, whether gradients are clipped or not. Returns the coefficient by which
  /// gradients are multiplied; invalid if clipping is off, so that no update waits for the norm.
  /// If the loss is scaled, the coefficient divides the scale out. The norm is then finite on every
  /// rank exactly if all gradients on all ranks are, and else the coefficient tells every update to
  /// do nothing: no flag has to be exchanged beside it.
  BufferId clip() {
    std::vector<std::string> classes;  // split axes of the whole model: all stages sum together
    for (const UnitLayout& unit : draft_.model.units) {
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
    const DType sums = dtype_of(BufferKind::Metric);
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
        const BufferId all = add_view(out_.role, squares, at, bytes);
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
                                {draft_.scenario.training.max_norm}),
                    in, {{"coefficient", sums}, {"norm", sums}}),
         args);
    to_host(HostData::GradNorm, norm);
    if (draft_.scenario.training.max_norm == 0 && !scaled) return {};
    return coefficient;
  }

  /// Sums into `squares` the squares of what the units that `axis` splits (no axis, if it is empty)
  /// hold in this replica.
  BufferId squares_of(const std::string& axis, BufferId squares) {
    const DType grad = dtype_of(BufferKind::Grad);
    const DType sums = dtype_of(BufferKind::Metric);
    const std::int64_t blocks = out_.role.buffer(squares).bytes.v / size_of(sums);
    const std::string kind =
        divides_experts(axis) ? "experts." : "";  // experts may have fewer blocks
    bool first = true;
    for (std::size_t u = 0; u < out_.units.size(); ++u) {
      const Unit& unit = out_.role.units[u];
      const UnitLayout& layout = layout_of(draft_, out_.units[u]);
      if (layout.split_axis != axis || layout.frozen || !layout.has_gradient()) continue;
      if (unit.tied_copy) continue;  // it is counted on the first stage
      Kernel k = bare_kernel(KernelKind::NormSquared, grad, {unit.shard_elements, blocks});
      k.accumulate = !first;
      const std::string name = "norm_squared." + kind + std::to_string(unit.shard_elements);
      call(one_kernel(first ? name : name + "+", k, {{"g", grad}}, {{"squares", sums}}),
           {out_.units[u].reduced, squares}, layer(u));
      first = false;
    }
    if (first) {  // this stage has no such unit
      call(one_kernel("zero_squares." + kind + std::to_string(blocks),
                      bare_kernel(KernelKind::Fill, sums, {blocks}), {}, {{"squares", sums}}),
           {squares});
    }
    if (!axis.empty()) communicate(OpKind::AllReduce, draft_.axis_group(axis), {squares});
    if (strategy_.pipeline_parallel_degree > 1 && axis != "vocabulary") {
      communicate(OpKind::AllReduce, draft_.group("pp", {"pp"}), {squares});
    }
    return squares;
  }
  BufferId gather_squares(const std::string& axis, BufferId squares, BufferId all) {
    communicate(OpKind::AllGather, shard_group(draft_, axis), {squares, all});
    return all;
  }

  /// What the rank updates of its parameters as the forward pass reads them.
  BufferId own_of(std::size_t u) {
    const Unit& unit = out_.role.units[u];
    return unit.whole_param ? piece_of_param(unit) : unit.param();
  }
  BufferId weights_of(std::size_t u) {
    const Unit& unit = out_.role.units[u];
    return unit.has(StateKind::Master) ? unit.states[StateKind::Master] : own_of(u);
  }
  void update(std::size_t u, BufferId coefficient) {
    const Unit& unit = out_.role.units[u];
    const BufferId own = own_of(u);
    const BufferId weights = unit.has(StateKind::Master) ? unit.states[StateKind::Master] : own;
    if (factored(u)) {
      adafactor_.move(u, coefficient, weights);
    } else if (orthogonalizes(u)) {
      muon_.begin(u, coefficient);
      muon_.finish(u, coefficient, weights);
    } else {
      move(u, coefficient, weights);
    }
    if (unit.has(StateKind::Master)) round_master(unit, own, layer(u));
    if (!unit.whole_param || unit.gathered_late) return;
    Op gather = collective(OpKind::AllGather, Stream::Gather, unit.shard_group, layer(u));
    gather.phase = Phase::O;
    add_op(out_.role, gather, {own, unit.param()});
  }
  /// Moves weights by one kernel, which works on single elements.
  void move(std::size_t u, BufferId coefficient, BufferId moved) {
    const Unit& unit = out_.role.units[u];
    const OptimizerSpec& o = draft_.scenario.optimizer;
    const bool clipped = coefficient.valid();
    const DType weights = out_.role.buffer(moved).dtype;
    const DType moments = out_.role.buffer(unit.states[StateKind::Moment1]).dtype;
    std::vector<BufferId> args = {out_.units[u].reduced};
    if (clipped) args.push_back(coefficient);
    args.insert(args.end(), {moved, unit.states[StateKind::Moment1]});
    if (unit.has(StateKind::Moment2)) args.push_back(unit.states[StateKind::Moment2]);
    const std::string elements = std::to_string(unit.shard_elements);
    const std::vector<NamedOperand> in = {
        {"g", dtype_of(BufferKind::Grad)},
        {clipped ? "coefficient" : "", dtype_of(BufferKind::Metric)}};
    const UnitLayout& layout = layout_of(draft_, out_.units[u]);
    const bool plain = !layout.decays;
    const double decay = plain ? 0 : o.weight_decay;
    const std::string which = (plain ? "plain." : "") + elements;
    Kernel step = bare_kernel(o.name == OptimizerKind::Adam ? KernelKind::Adam
                              : unit.state_block > 0        ? KernelKind::AdamW8bit
                                                            : KernelKind::AdamW,
                              weights, {unit.shard_elements, unit.state_block},
                              {o.beta1, o.beta2, o.eps, decay});
    std::vector<NamedOperand> out = {{"w", weights}, {"m", moments}, {"v", moments}};
    if (layout.moved_by == MovedBy::DelayedScale) {
      const TrainingSpec& t = draft_.scenario.training;
      step = bare_kernel(
          KernelKind::DelayedScale, weights, {unit.shard_elements, unit.history},
          {static_cast<double>(t.fp8_margin),
           t.fp8_amax_compute_algo == Fp8AmaxAlgo::MostRecent ? 1.0 : 0.0, double{kE4M3},
           static_cast<double>(t.fp8 == Fp8Format::Hybrid ? kE5M2 : kE4M3)});
      out = {{"scale", weights}, {"history", moments}};
    } else if (layout.moved_by == MovedBy::RouterBias) {
      step = bare_kernel(KernelKind::RouterBias, weights, {unit.shard_elements},
                         {draft_.scenario.model.router_bias_update_rate});
      out = {{"b", weights}, {"load", moments}};
    } else if (o.name == OptimizerKind::Sgd) {
      step = bare_kernel(KernelKind::Sgd, weights, {unit.shard_elements}, {o.momentum, decay});
      out.pop_back();
    }
    step.stochastic =
        draft_.scenario.training.stochastic_rounding && info(step.kind).may_be_stochastic;
    call(one_kernel(std::string(info(step.kind).name) + "." + which, step, in, out), args,
         layer(u));
  }
  /// Rounds the master copy to the parameters' own type.
  void round_master(const Unit& unit, BufferId own, int layer) {
    const DType from = out_.role.buffer(unit.states[StateKind::Master]).dtype;
    const DType to = out_.role.buffer(own).dtype;
    call(copy_function(draft_, unit.shard_elements, from, to, false),
         {unit.states[StateKind::Master], own}, layer);
  }
  BufferId piece_of_param(const Unit& unit) {
    return add_piece(out_.role, unit.param(), unit.shard_group,
                     Bytes{unit.shard_elements * size_of(dtype_of(BufferKind::Param))});
  }

  void report_loss() {
    const DType sums = dtype_of(BufferKind::Metric);
    const std::int64_t m = out_.role.buffer(out_.losses).bytes.v / size_of(sums);
    const BufferId loss = metric("loss", 1);
    call(one_kernel("loss", bare_kernel(KernelKind::Sum, sums, {m}), {{"losses", sums}},
                    {{"loss", sums}}),
         {out_.losses, loss});
    std::vector<int> ends;  // the pipeline ranks on which some of the microbatches end
    for (std::size_t r = 0; r < draft_.roles.size(); ++r) {
      if (draft_.roles[r].losses.valid()) ends.push_back(static_cast<int>(r));
    }
    // Those of copies of the model have other microbatches; those that divide the vocabulary all.
    if (draft_.schedule.copies > 1 && ends.size() > 1)
      communicate(OpKind::AllReduce, pipeline_group(draft_, ends), {loss});
    if (strategy_.gradient_ranks() > 1) {
      communicate(OpKind::AllReduce, data_group(draft_), {loss});
    }
    to_host(HostData::Loss, loss);
  }
  int layer(std::size_t u) const { return layer_of(out_, u); }

  Draft& draft_;
  DraftRole& out_;
  const StrategySpec& strategy_;
  MuonStep muon_;
  AdafactorStep adafactor_;
};

}  // namespace

void optimizer(Draft& draft) {
  if (draft.model.units.empty()) return;  // the synthetic model has nothing to update
  for (DraftRole& role : draft.roles) {
    OptimizerStep(draft, role).run();
    std::vector<Unit>& units = role.role.units;
    units.insert(units.end(), role.statistics.begin(), role.statistics.end());
  }
}

}  // namespace lockstep
