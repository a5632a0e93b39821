// expand: actions -> ops. Calls of the layers' functions with their buffers, messages between
// stages, host copies. Parameters and gradients are still whole; sharding comes next.
#include <array>
#include <map>

#include "core/lower/draft.hpp"

namespace lockstep {
namespace {

class RoleExpander {
 public:
  RoleExpander(Draft& draft, int coordinate)
      : draft_(draft),
        model_(draft.model),
        coordinate_(coordinate),
        microbatches_(draft.scenario.num_microbatches()) {
    const std::size_t cells = model_.layers.size() * static_cast<std::size_t>(microbatches_);
    for (auto* table : {&x_, &saved_, &stash_, &dy_}) table->assign(cells, BufferId{});
    declare_units();
    const bool last = draft.schedule.rank_of_stage.back() == coordinate;
    if (last && !model_.units.empty()) {
      out_.losses = add(BufferKind::Metric, "losses", microbatches_ * size_of(dtype()));
    }
  }

  DraftRole run() {
    const auto& actions = draft_.schedule.actions[static_cast<std::size_t>(coordinate_)];
    // Each action's input is asked for one action ahead, so that the transfer can overlap.
    if (!actions.empty()) post_input(actions[0]);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i + 1 < actions.size()) post_input(actions[i + 1]);
      switch (actions[i].phase) {
        case Phase::F:
          forward(actions[i]);
          break;
        case Phase::B:
        case Phase::I:
        case Phase::W:
          backward(actions[i]);
          break;
        default:
          break;
      }
    }
    return std::move(out_);
  }

 private:
  DType dtype() const { return draft_.program.dtype; }
  StageLayers stage(Stage s) const { return draft_.stages[static_cast<std::size_t>(s)]; }
  std::size_t cell(int layer, Microbatch mb) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(mb);
  }
  const Layer& layer(int l) const { return model_.layers[static_cast<std::size_t>(l)]; }
  const LayerKind& kind(int l) const {
    return model_.kinds[static_cast<std::size_t>(layer(l).kind)];
  }
  int neighbour(Stage s) const {
    return draft_.schedule.rank_of_stage[static_cast<std::size_t>(s)];
  }
  bool here(Stage s) const { return neighbour(s) == coordinate_; }

  BufferId add(BufferKind buffer_kind, std::string_view name, std::int64_t bytes, int layer = -1,
               Microbatch mb = -1) {
    Buffer buffer;
    buffer.bytes = Bytes{bytes};
    buffer.kind = buffer_kind;
    buffer.dtype = buffer_kind == BufferKind::Input ? DType::I32 : dtype();
    buffer.layer = static_cast<std::int16_t>(layer);
    buffer.microbatch = mb;
    buffer.name = draft_.name(name);
    return add_buffer(out_.role, buffer);
  }

  void declare_units() {
    std::vector<int> used(model_.units.size(), -1);  // by the first such layer
    const auto use = [&](int unit, int l) {
      int& first = used[static_cast<std::size_t>(unit)];
      if (first < 0) first = l;
    };
    for (Stage s = 0; s < static_cast<Stage>(draft_.stages.size()); ++s) {
      if (!here(s)) continue;
      for (int l = stage(s).first; l < stage(s).last; ++l) {
        if (layer(l).unit >= 0) use(layer(l).unit, l);
        if (layer(l).uses_tied) use(model_.tied_unit, l);
      }
    }
    unit_of_layout_.assign(model_.units.size(), -1);
    const std::int64_t shards = draft_.scenario.strategy.state_shards();
    for (std::size_t u = 0; u < model_.units.size(); ++u) {
      if (used[u] < 0) continue;
      const UnitLayout& layout = model_.units[u];
      Unit unit;
      unit.name = layout.name;
      unit.elements = unit.shard_elements = layout.elements;
      for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
        unit.parameters.push_back({first_parameter(u, i), layout.offsets[i]});
      }
      unit.tied_copy = static_cast<int>(u) == model_.tied_unit && coordinate_ > 0;
      const std::int64_t bytes = layout.elements * size_of(dtype());
      unit.param = add(BufferKind::Param, layout.name, bytes, used[u]);
      unit.adam_m = add(BufferKind::Optimizer, layout.name + ".m", bytes, used[u]);
      unit.adam_v = add(BufferKind::Optimizer, layout.name + ".v", bytes, used[u]);
      DraftUnit draft_unit;
      draft_unit.layout = static_cast<int>(u);
      draft_unit.grad = draft_unit.reduced = add(BufferKind::Grad, layout.name + ".grad",
                                                 layout.padded(shards) * size_of(dtype()), used[u]);
      unit_of_layout_[u] = static_cast<int>(out_.units.size());
      out_.units.push_back(draft_unit);
      out_.role.units.push_back(std::move(unit));
    }
    grad_written_.assign(out_.units.size(), false);
  }
  ParameterId first_parameter(std::size_t unit, std::size_t i) const {
    std::size_t id = i;
    for (std::size_t u = 0; u < unit; ++u) id += model_.units[u].parameters.size();
    return {static_cast<std::int32_t>(id)};
  }
  std::size_t unit_index(int layout) const {
    return static_cast<std::size_t>(unit_of_layout_[static_cast<std::size_t>(layout)]);
  }

  void op(OpKind op_kind, Stream stream, std::int32_t target, const Action& action, int layer,
          const std::vector<BufferId>& args) {
    Op op;
    op.kind = op_kind;
    op.stream = stream;
    op.phase = action.phase;
    op.target = target;
    op.stage = static_cast<std::int16_t>(action.stage);
    op.layer = static_cast<std::int16_t>(layer);
    op.microbatch = action.microbatch;
    add_op(out_.role, op, args);
  }

  /// Receives and host copies that `action` needs.
  void post_input(const Action& action) {
    const Stage s = action.stage;
    const Microbatch mb = action.microbatch;
    const StageLayers layers = stage(s);
    if (action.phase == Phase::F) {
      if (kind(layers.first).has_input) {
        if (here(s - 1)) return;
        const BufferId x = add(BufferKind::Boundary, "x", model_.hidden_bytes, layers.first, mb);
        x_[cell(layers.first, mb)] = x;
        op(OpKind::Recv, Stream::RecvForward, neighbour(s - 1), action, -1, {x});
      } else if (!model_.units.empty()) {
        tokens_.resize(static_cast<std::size_t>(microbatches_));
        tokens_[static_cast<std::size_t>(mb)] = host_input(action, "tokens", HostData::Tokens);
      }
      if (!kind(layers.last - 1).has_output && !model_.units.empty()) {
        targets_.resize(static_cast<std::size_t>(microbatches_));
        targets_[static_cast<std::size_t>(mb)] = host_input(action, "targets", HostData::Targets);
      }
    } else if (action.phase != Phase::W && kind(layers.last - 1).has_output && !here(s + 1)) {
      const BufferId dy = add(BufferKind::Boundary, "dy", model_.hidden_bytes, layers.last - 1, mb);
      dy_[cell(layers.last - 1, mb)] = dy;
      op(OpKind::Recv, Stream::RecvBackward, neighbour(s + 1), action, -1, {dy});
    }
  }
  BufferId host_input(const Action& action, const char* name, HostData data) {
    const std::int64_t rows =
        std::int64_t{draft_.scenario.microbatch_size()} * draft_.scenario.training.seq_len;
    const BufferId buffer =
        add(BufferKind::Input, name, rows * size_of(DType::I32), -1, action.microbatch);
    op(OpKind::HostToDevice, Stream::Copy, static_cast<std::int32_t>(data), action, -1, {buffer});
    return buffer;
  }

  void forward(const Action& action) {
    const Microbatch mb = action.microbatch;
    const StageLayers layers = stage(action.stage);
    for (int l = layers.first; l < layers.last; ++l) {
      BufferId y;
      if (kind(l).has_output) {
        y = add(BufferKind::Activation, "y", model_.hidden_bytes, l, mb);
        if (l + 1 < static_cast<int>(model_.layers.size())) x_[cell(l + 1, mb)] = y;
      }
      call(action, l, 0, y, {});
    }
    if (kind(layers.last - 1).has_output && !here(action.stage + 1)) {
      op(OpKind::Send, Stream::SendForward, neighbour(action.stage + 1), action, -1,
         {x_[cell(layers.last, mb)]});
    }
  }

  void backward(const Action& action) {
    const Microbatch mb = action.microbatch;
    const StageLayers layers = stage(action.stage);
    const bool input_grad = action.phase != Phase::W;
    BufferId dx;
    for (int l = layers.last - 1; l >= layers.first; --l) {
      if (input_grad && kind(l).has_input) {
        dx = add(BufferKind::Boundary, "dx", model_.hidden_bytes, l, mb);
        dy_[cell(l - 1, mb)] = dx;
      }
      call(action, l, action.phase == Phase::I ? 0 : written_gradients(l), {}, dx);
    }
    if (input_grad && kind(layers.first).has_input && !here(action.stage - 1)) {
      op(OpKind::Send, Stream::SendBackward, neighbour(action.stage - 1), action, -1, {dx});
    }
  }

  /// Gradient formals of layer `l` that hold a sum already (bit 0 "gw", bit 1 "gw_tied"); marks
  /// them as written.
  unsigned written_gradients(int l) {
    unsigned written = 0;
    const auto visit = [&](int layout, unsigned bit) {
      const std::size_t unit = unit_index(layout);
      if (grad_written_[unit]) written |= bit;
      grad_written_[unit] = true;
    };
    if (layer(l).unit >= 0) visit(layer(l).unit, 1);
    if (layer(l).uses_tied) visit(model_.tied_unit, 2);
    return written;
  }

  struct Cached {
    FunctionId id;  // none: no kernels, nothing to call (the I of an embedding)
    std::vector<Formal> formals;
  };
  const Cached& function(int l, Phase phase, unsigned accumulate) {
    const std::array<int, 3> key = {layer(l).kind, static_cast<int>(phase),
                                    static_cast<int>(accumulate)};
    const auto [entry, fresh] = functions_.try_emplace(key);
    if (fresh) {
      std::vector<std::string> added;
      if (accumulate & 1) added.emplace_back("gw");
      if (accumulate & 2) added.emplace_back("gw_tied");
      const FunctionBuilder& f = kind(l).functions;
      const Function built = phase == Phase::F   ? f.forward()
                             : phase == Phase::B ? f.backward(added)
                             : phase == Phase::I ? f.backward(Part::InputGrad, {})
                                                 : f.backward(Part::WeightGrad, added);
      if (!built.kernels.empty()) entry->second = {draft_.function(built), built.formals};
    }
    return entry->second;
  }

  void call(const Action& action, int l, unsigned accumulate, BufferId y, BufferId dx) {
    const Cached& callee = function(l, action.phase, accumulate);
    if (!callee.id.valid()) return;
    args_.clear();
    for (const Formal& formal : callee.formals) {
      args_.push_back(actual(formal, l, action.microbatch, y, dx));
    }
    op(OpKind::Call, Stream::Compute, callee.id.v, action, l, args_);
  }

  BufferId actual(const Formal& formal, int l, Microbatch mb, BufferId y, BufferId dx) {
    const std::string& name = formal.name;
    const auto own = [&]() -> std::size_t { return unit_index(layer(l).unit); };
    const auto tied = [&]() -> std::size_t { return unit_index(model_.tied_unit); };
    if (name == "w") return out_.role.units[own()].param;
    if (name == "w_tied") return out_.role.units[tied()].param;
    if (name == "gw") return out_.units[own()].grad;
    if (name == "gw_tied") return out_.units[tied()].grad;
    if (name == "tokens") return tokens_[static_cast<std::size_t>(mb)];
    if (name == "targets") return targets_[static_cast<std::size_t>(mb)];
    if (name == "x") return x_[cell(l, mb)];
    if (name == "dy") return dy_[cell(l, mb)];
    if (name == "y") return y;
    if (name == "dx") return dx;
    if (name == "ws") return add(BufferKind::Workspace, "ws", formal.bytes.v, l, mb);
    if (name == "loss") {
      return add_view(out_.role, out_.losses, mb * size_of(dtype()), formal.bytes);
    }
    auto& table = name == "saved" ? saved_ : stash_;
    BufferId& kept = table[cell(l, mb)];
    if (!kept.valid()) kept = add(BufferKind::Activation, name, formal.bytes.v, l, mb);
    return kept;
  }

  Draft& draft_;
  const Model& model_;
  const int coordinate_;
  const int microbatches_;
  DraftRole out_;
  std::map<std::array<int, 3>, Cached> functions_;  // by (kind, phase, accumulate)
  std::vector<BufferId> args_;                      // of the call being built
  std::vector<int> unit_of_layout_;                 // by Model::units; -1: not on this rank
  std::vector<bool> grad_written_;                  // by unit of the role
  std::vector<BufferId> x_, saved_, stash_, dy_;    // by cell(layer, microbatch)
  std::vector<BufferId> tokens_, targets_;          // by microbatch
};

}  // namespace

void expand(Draft& draft) {
  draft.roles.clear();
  for (int r = 0; r < draft.scenario.strategy.pipeline_parallel_degree; ++r) {
    draft.roles.push_back(RoleExpander(draft, r).run());
  }
}

}  // namespace lockstep
