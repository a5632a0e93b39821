// expand: makes ops of actions: calls of the layers' functions with their buffers, messages between
// stages, and host copies. Parameters and gradients are still whole; later passes shard them.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/lower/passes/arguments.hpp"
#include "core/lower/passes/declare.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/schedule/inputs.hpp"
#include "core/schedule/messages.hpp"

namespace lockstep {
namespace {

/// A step of a layer, kept because it is put into the list many times, with other buffers.
struct KnownStep {
  OpKind kind = OpKind::Call;
  Stream stream = Stream::Compute;
  std::int32_t target = -1;  // Op::target
  std::vector<Argument> arguments;
  ExpectedRows rows;  // as Role::rows_of() says
};

/// The tables that the host makes of a microbatch's samples for layers.
constexpr std::array kTables = {
    HostData::Documents,   HostData::DocumentSpans,  HostData::DocumentPositions, HostData::Windows,
    HostData::DropoutKeys, HostData::AllDropoutKeys, HostData::AttentionDropout};

/// The steps of layers, which are the same on all roles.
struct KnownSteps {
  /// How many elements of one of kTables a kind of layer reads.
  std::int64_t table_elements(int number, const LayerKind& kind, std::size_t table) {
    const auto [known, fresh] = elements.try_emplace(number);
    if (fresh) {
      for (std::size_t t = 0; t < kTables.size(); ++t) {
        known->second[t] = kind.functions.elements_of(to_string(kTables[t]));
      }
    }
    return known->second[table];
  }

  std::map<int, std::array<std::int64_t, kTables.size()>> elements;  // by kind
  std::map<std::array<int, 3>, std::vector<KnownStep>> steps;        // by (kind, phase, accumulate)
  TensorTables table_of;
};

class RoleExpander {
 public:
  RoleExpander(Draft& draft, KnownSteps& known, const Messages& messages, int coordinate)
      : draft_(draft),
        known_(known),
        model_(draft.model),
        coordinate_(coordinate),
        microbatches_(draft.scenario.num_microbatches()),
        messages_(messages) {
    const std::size_t cells = model_.layers.size() * to_size(microbatches_);
    for (auto* table : {&x_, &dy_}) table->assign(cells, BufferId{});
    for (const BufferKind kind : type_of_kind_.ids()) type_of_kind_[kind] = draft.dtype_of(kind);
    unit_of_layout_ = declare_units(draft, out_, coordinate);
    grad_written_.assign(out_.units.size(), false);
    statistics_ = declare_statistics(draft, out_, coordinate);
    if (!model_.units.empty()) declare_losses();
  }

  /// Makes room for a role that is about as long as `other`.
  void reserve_as(const Role& other) {
    out_.role.ops.reserve(with_room(other.ops.size()));
    out_.role.args.reserve(with_room(other.args.size()));
    out_.role.buffers.reserve(with_room(other.buffers.size()));
  }

  DraftRole run() {
    const Actions& actions = draft_.schedule.actions[coordinate_];
    const std::vector<Step> steps = steps_of(actions);
    // The data of a step are copied one step ahead, so that the copy can overlap with compute.
    const auto copy_batches = [&](std::size_t step) {
      if (step == steps.size()) return;
      for (std::size_t i = steps[step].begin; i < steps[step].end; ++i) copy_batch(actions[i]);
    };
    const std::vector<Actions> broadcasts = broadcasts_before(draft_.schedule, coordinate_);
    if (draft_.scenario.training.scales_loss() && !model_.units.empty()) copy_loss_scale();
    copy_batches(0);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (const Action& needed_by : broadcasts[steps[s].begin]) broadcast(needed_by);
      for (const Action& needed_by : messages_.before(coordinate_, s)) receive(needed_by);
      copy_batches(s + 1);
      const Action& first = actions[steps[s].begin];
      if (steps[s].end - steps[s].begin == 2) {
        run_as_one(first, actions[steps[s].begin + 1]);
      } else {
        compute(first);
        send_output(first, {});
      }
    }
    return std::move(out_);
  }

 private:
  void copy_loss_scale() {
    constexpr DType kType = DType::F32;
    out_.loss_scale = typed(add(BufferKind::Input, "loss_scale", size_of(kType)), kType);
    op(OpKind::HostToDevice, Stream::Copy, static_cast<std::int32_t>(HostData::LossScale), {}, -1,
       {out_.loss_scale});
  }

  StageLayers stage(Stage s) const { return draft_.stages[s]; }
  std::size_t cell(int layer, Microbatch mb) const {
    return to_size(layer) * to_size(microbatches_) + to_size(mb);
  }
  const Layer& layer(int l) const { return model_.layers[l]; }
  const LayerKind& kind(int l) const { return model_.kinds[layer(l).kind]; }
  int rank_of(Stage s) const { return draft_.schedule.rank_of_stage[s]; }
  bool shared(Stage s) const { return draft_.schedule.on_every_rank(s); }

  std::int64_t element(BufferKind buffer_kind) const {
    return size_of(draft_.dtype_of(buffer_kind));
  }
  BufferId add(BufferKind buffer_kind, std::string_view name, std::int64_t bytes, int layer = -1,
               Microbatch mb = -1) {
    return declare_buffer(draft_, out_.role, buffer_kind, name, bytes, layer, mb);
  }
  /// Adds a buffer of that name, an index into Program::names.
  BufferId add(std::int16_t name, BufferKind buffer_kind, Bytes bytes, int layer, Microbatch mb) {
    const BufferId id = out_.role.buffers.next();
    Buffer& buffer = out_.role.buffers.emplace_back();  // in its place: there are many
    buffer.bytes = bytes;
    buffer.kind = buffer_kind;
    buffer.dtype = type_of_kind_[buffer_kind];
    buffer.layer = static_cast<std::int16_t>(layer);
    buffer.microbatch = mb;
    buffer.name = name;
    return id;
  }
  /// Adds a buffer that an argument of a layer's step is given.
  BufferId add(Argument& argument, BufferKind buffer_kind, int layer, Microbatch mb) {
    if (argument.label < 0) argument.label = draft_.name(argument.name);
    return add(argument.label, buffer_kind, argument.bytes, layer, mb);
  }

  /// Gives a buffer another type than its kind has.
  BufferId typed(BufferId buffer, DType type) {
    out_.role.buffers[buffer].dtype = type;
    return buffer;
  }

  /// Declares a buffer for the losses of the microbatches that end on this rank.
  void declare_losses() {
    int count = 0;
    loss_of_.assign(microbatches_, 0);
    for (const Action& action : draft_.schedule.actions[coordinate_]) {
      if (action.phase != Phase::F || !draft_.schedule.is_last(action.stage)) continue;
      loss_of_[action.microbatch] = 1;
      ++count;
    }
    if (count == 0) return;
    std::exclusive_scan(loss_of_.begin(), loss_of_.end(), loss_of_.begin(), 0);
    out_.losses = add(BufferKind::Metric, "losses", count * element(BufferKind::Metric));
  }
  std::size_t unit_index(int layout) const { return to_size(unit_of_layout_[layout]); }

  /// Adds an op. It waits for `after` beside what its buffers imply. Returns its id.
  OpId op(OpKind op_kind, Stream stream, std::int32_t target, const Action& action, int layer,
          const std::vector<BufferId>& args, OpId after = {}) {
    Role& role = out_.role;
    const OpId id = role.ops.next();
    Op& op = role.ops.emplace_back();  // in its place: there are many
    op.kind = op_kind;
    op.stream = stream;
    op.phase = action.phase;
    op.target = target;
    op.stage = static_cast<std::int16_t>(action.stage);
    op.layer = static_cast<std::int16_t>(layer);
    op.microbatch = action.microbatch;
    if (after.valid()) {
      op.after_begin = static_cast<std::uint32_t>(role.after.size());
      op.after_count = 1;
      role.after.push_back(after);
    }
    op.args_begin = static_cast<std::uint32_t>(role.args.size());
    op.args_count = static_cast<std::uint16_t>(args.size());
    role.args.insert(role.args.end(), args.begin(), args.end());
    return id;
  }

  /// Adds the copies of tokens and targets that `action` needs.
  void copy_batch(const Action& action) {
    if (action.phase != Phase::F || model_.units.empty()) return;
    const StageLayers layers = stage(action.stage);
    const Microbatch mb = action.microbatch;
    if (!kind(layers.first).has_input) {
      host_input(action, draft_.scenario.model.is_vision() ? HostData::Images : HostData::Tokens);
    }
    if (!kind(layers.last - 1).has_output) host_input(action, HostData::Targets);
    for (std::size_t t = 0; t < kTables.size(); ++t) {
      const BufferId& table = batch(kTables[t], mb);
      for (int l = layers.first; l < layers.last && !table.valid(); ++l) {
        const std::int64_t elements = known_.table_elements(layer(l).kind, kind(l), t);
        if (elements == 0) continue;
        host_input(action, kTables[t], elements, DType::I32);
      }
    }
  }
  /// Adds the receive of what `action` needs from another rank.
  void receive(const Action& action) {
    const Stage s = action.stage;
    if (action.phase == Phase::F) {
      const int l = stage(s).first;
      const BufferId x = add(BufferKind::Boundary, "x", output_bytes(l - 1), l, action.microbatch);
      x_[cell(l, action.microbatch)] = x;
      const Stream stream =
          boundary_goes_down(draft_.schedule, s - 1) ? Stream::RecvForward : Stream::RecvBackward;
      op(OpKind::Recv, stream, rank_of(s - 1), action, -1, {x});
    } else {
      const int l = stage(s).last - 1;
      const BufferId dy = add(BufferKind::Boundary, "dy", output_bytes(l), l, action.microbatch);
      dy_[cell(l, action.microbatch)] = dy;
      const Stream stream =
          boundary_goes_down(draft_.schedule, s) ? Stream::RecvBackward : Stream::RecvForward;
      gradient_received_[cell(l, action.microbatch)] =
          op(OpKind::Recv, stream, rank_of(s + 1), action, -1, {dy});
    }
  }
  /// Adds the broadcast of what a pass of a stage that all ranks share needs, from the rank of the
  /// stage beside it.
  void broadcast(const Action& action) {
    const bool forward = action.phase == Phase::F;
    const int l = stage(action.stage).first;
    BufferId& buffer = (forward ? x_ : dy_)[cell(l, action.microbatch)];
    if (!buffer.valid()) {
      buffer = add(BufferKind::Boundary, forward ? "x" : "dy", output_bytes(forward ? l - 1 : l), l,
                   action.microbatch);
    }
    op(OpKind::Broadcast, Stream::Stages, draft_.axis_group("pp").v, action, l, {buffer});
    const Stage source = action.stage + (forward ? -1 : 1);
    out_.role.ops.back().root = static_cast<std::int16_t>(rank_of(source));
  }
  std::int64_t output_bytes(int l) const { return layer(l).output_bytes; }
  /// Ids of the rank's own tokens, or images.
  void host_input(const Action& action, HostData data) {
    const Scenario& s = draft_.scenario;
    const bool images = data == HostData::Images;
    const std::int64_t elements = images ? s.model.image_elements() : s.own_seq_len();
    host_input(action, data, s.microbatch_size() * elements,
               images ? draft_.program.dtype : DType::I32);
  }
  void host_input(const Action& action, HostData data, std::int64_t elements, DType type) {
    const std::int64_t bytes = elements * size_of(type);
    const BufferId buffer =
        typed(add(BufferKind::Input, to_string(data), bytes, -1, action.microbatch), type);
    op(OpKind::HostToDevice, Stream::Copy, static_cast<std::int32_t>(data), action, -1, {buffer});
    batch(data, action.microbatch) = buffer;
  }
  /// The buffer of what every microbatch has its own of.
  BufferId& batch(HostData data, Microbatch mb) {
    IndexVector<Microbatch, BufferId>& buffers = batches_[data];
    if (buffers.empty()) buffers.resize(microbatches_);
    return buffers[mb];
  }

  void compute(const Action& action) {
    action.phase == Phase::F ? forward(action) : backward(action);
  }
  /// Adds a pair that runs as one. It begins with both inputs, and ends with both outputs.
  void run_as_one(const Action& first, const Action& second) {
    const int l = stage(second.stage).last - 1;
    const auto gradient = gradient_received_.find(cell(l, second.microbatch));
    if (gradient != gradient_received_.end()) begin_after_ = gradient->second;
    compute(first);
    compute(second);
    const OpId last{static_cast<std::int32_t>(out_.role.ops.size()) - 1};
    send_output(first, last);
    send_output(second, last);
  }

  void forward(const Action& action) {
    const Microbatch mb = action.microbatch;
    const StageLayers layers = stage(action.stage);
    for (int l = layers.first; l < layers.last; ++l) {
      BufferId y;
      if (kind(l).has_output) {
        if (y_name_ < 0) y_name_ = draft_.name("y");
        y = add(y_name_, BufferKind::Activation, Bytes{output_bytes(l)}, l, mb);
        if (l + 1 < static_cast<int>(model_.layers.size())) x_[cell(l + 1, mb)] = y;
      }
      run(action, l, 0, y, {});
    }
  }

  void backward(const Action& action) {
    const Microbatch mb = action.microbatch;
    const StageLayers layers = stage(action.stage);
    BufferId dx;
    for (int l = layers.last - 1; l >= layers.first; --l) {
      if (action.phase != Phase::W && kind(l).has_input) {
        if (dx_name_ < 0) dx_name_ = draft_.name("dx");
        dx = add(dx_name_, BufferKind::Boundary, Bytes{output_bytes(l - 1)}, l, mb);
        dy_[cell(l - 1, mb)] = dx;
      }
      if (action.phase != Phase::W) {  // computes again what was not kept
        Action again = action;
        again.phase = Phase::R;
        run(again, l, 0, {}, {});
      }
      run(action, l, action.phase == Phase::I ? 0 : written_gradients(l), {}, dx);
    }
  }

  /// Sends the result of an action to the stage that waits for it, unless that is on this rank.
  void send_output(const Action& action, OpId after) {
    const StageLayers layers = stage(action.stage);
    const bool forward = action.phase == Phase::F;
    const Stage to = action.stage + (forward ? 1 : -1);
    const bool sends = forward ? kind(layers.last - 1).has_output : kind(layers.first).has_input;
    if (action.phase == Phase::W || !sends || !in_message(draft_.schedule, action.stage, to))
      return;
    const bool down = boundary_goes_down(draft_.schedule, std::min(action.stage, to));
    const BufferId output = forward ? x_[cell(layers.last, action.microbatch)]
                                    : dy_[cell(layers.first - 1, action.microbatch)];
    op(OpKind::Send, down == forward ? Stream::SendForward : Stream::SendBackward, rank_of(to),
       action, -1, {output}, after);
  }

  /// Which units of layer `l` have gradients that hold a sum already, as bits. Marks all as
  /// written.
  unsigned written_gradients(int l) {
    unsigned written = 0;
    const std::vector<LayerUnit>& units = layer(l).units;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::size_t unit = unit_index(units[i].unit);
      if (grad_written_[unit]) written |= 1u << i;
      grad_written_[unit] = true;
    }
    return written;
  }

  std::vector<KnownStep>& steps(int l, Phase phase, unsigned accumulate) {
    const std::array<int, 3> key = {layer(l).kind, static_cast<int>(phase),
                                    static_cast<int>(accumulate)};
    const auto [entry, fresh] = known_.steps.try_emplace(key);
    if (!fresh) return entry->second;
    std::vector<std::string> added;
    for (std::size_t i = 0; i < layer(l).units.size(); ++i) {
      if (accumulate >> i & 1) added.push_back("gw" + layer(l).units[i].suffix);
    }
    const auto arguments = [&](const auto& formals) {
      std::vector<Argument> result;
      for (const Formal& formal : formals) {
        result.push_back(argument_of(formal, layer(l), kind(l).functions, known_.table_of));
      }
      return result;
    };
    const std::vector<LayerStep> built = draft_.steps(layer(l).kind, phase, added);
    for (std::size_t i = 0; i < built.size(); ++i) {
      if (const auto* f = std::get_if<Function>(&built[i])) {
        const FunctionId id = draft_.function(*f, {layer(l).kind, phase, i});
        entry->second.push_back({OpKind::Call, Stream::Compute, id.v, arguments(f->formals), {}});
      } else {
        const auto& c = std::get<Communication>(built[i]);
        std::vector<Formal> formals = {c.in};
        if (c.out.name != c.in.name) formals.push_back(c.out);
        formals.insert(formals.end(), c.counts.begin(), c.counts.end());
        const bool stages = c.axis == "pp" || c.axis == "vocabulary";
        entry->second.push_back({c.kind, stages ? Stream::Stages : Stream::Layer,
                                 draft_.axis_group(c.axis).v, arguments(formals), c.rows});
      }
    }
    return entry->second;
  }

  /// Adds the steps of layer `l` in an action.
  void run(const Action& action, int l, unsigned accumulate, BufferId y, BufferId dx) {
    Bindings bindings{y, dx, {}, ++runs_};
    for (KnownStep& step : steps(l, action.phase, accumulate)) {
      if (step.kind == OpKind::Broadcast) continue;  // it was posted before
      args_.clear();
      for (Argument& argument : step.arguments) {
        const BufferId buffer = actual(argument, l, action.microbatch, bindings);
        args_.push_back(argument.parts == 1 ? buffer : part_of(buffer, argument));
      }
      op(step.kind, step.stream, step.target, action, l, args_, begin_after_);
      if (is_counted(step.kind) && !out_.role.expect_rows(out_.role.ops.back(), step.rows)) {
        draft_.add_fault("the ops of a role expect too many different numbers of rows");
      }
      begin_after_ = {};
    }
  }

  /// The buffers of one run of a layer's steps.
  struct Bindings {
    BufferId y, dx, ws;
    int number = 0;  // of the run, counted from 1
  };
  BufferId actual(Argument& argument, int l, Microbatch mb, Bindings& run) {
    switch (argument.what) {
      case Argument::Parameters:
        return out_.role.units[unit_index(layer(l).units[to_size(argument.index)].unit)].param();
      case Argument::Gradient:
        return out_.units[unit_index(layer(l).units[to_size(argument.index)].unit)].grad;
      case Argument::Data:
        return input(argument, mb);
      case Argument::Statistics:
        return statistics_[l];
      case Argument::X:
        return x_[cell(l, mb)];
      case Argument::Dy:
        return dy_[cell(l, mb)];
      case Argument::Y:
        return run.y.valid() ? run.y : x_[cell(l + 1, mb)];  // backward: what is kept
      case Argument::Dx:
        return run.dx;
      case Argument::Workspace:  // all segments share it
        if (!run.ws.valid()) run.ws = add(argument, BufferKind::Workspace, l, mb);
        return run.ws;
      case Argument::Loss:
        return add_view(out_.role, out_.losses, loss_of_[mb] * element(BufferKind::Metric),
                        argument.bytes);
      case Argument::Kept: {
        BufferId& kept = table(argument.index).buffers[cell(l, mb)];
        if (!kept.valid()) kept = add(argument, BufferKind::Activation, l, mb);
        return kept;
      }
      case Argument::Communicated:
        break;
    }
    return communicated(argument, l, mb, run);
  }

  /// The view of an argument that is a part of its buffer.
  BufferId part_of(BufferId buffer, const Argument& argument) {
    const auto [view, fresh] = parts_.try_emplace({buffer, argument.part});
    if (fresh) {
      const Bytes bytes{argument.bytes.v / argument.parts};
      view->second = add_view(out_.role, buffer, argument.part * bytes.v, bytes);
    }
    return view->second;
  }

  /// What the host has filled for the microbatch, or once for all microbatches.
  BufferId input(Argument& argument, Microbatch mb) {
    if (is_batch(argument.data)) return batch(argument.data, mb);
    if (argument.data == HostData::LossScale) return out_.loss_scale;
    BufferId& buffer = constants_[argument.data];
    if (buffer.valid()) return buffer;
    buffer = add(argument, BufferKind::Input, -1, -1);
    op(OpKind::HostToDevice, Stream::Copy, static_cast<std::int32_t>(argument.data), {}, -1,
       {buffer});
    return buffer;
  }

  /// The buffer of a communicated tensor, written anew in this run or kept from an earlier one.
  BufferId communicated(Argument& argument, int l, Microbatch mb, const Bindings& run) {
    Table& known = table(argument.index);
    const bool first = std::exchange(known.last_run, run.number) != run.number;
    BufferId& buffer = known.buffers[cell(l, mb)];
    if (first && argument.written) {
      buffer = typed(add(argument, argument.kind, l, mb), argument.dtype);
    }
    return buffer;
  }

  /// The buffers of one tensor that layers keep or communicate.
  struct Table {
    std::vector<BufferId> buffers;  // by cell(layer, microbatch)
    int last_run = 0;               // the last one that touched such a buffer
  };
  Table& table(int index) {
    if (tables_.next() <= index) tables_.resize(known_.table_of.size());
    Table& table = tables_[index];
    if (table.buffers.empty()) table.buffers.assign(x_.size(), BufferId{});
    return table;
  }

  Draft& draft_;
  KnownSteps& known_;
  const Model& model_;
  const int coordinate_;
  const int microbatches_;
  const Messages& messages_;
  DraftRole out_;
  std::vector<BufferId> args_;               // those of the op being built
  IndexVector<int, int> unit_of_layout_;     // by Model::units; -1 if the unit is not on this rank
  std::vector<bool> grad_written_;           // by unit of the role
  std::vector<BufferId> x_, dy_;             // by cell(layer, microbatch)
  IndexVector<int, Table> tables_;           // by TensorTables
  std::int32_t y_name_ = -1, dx_name_ = -1;  // once they are known
  int runs_ = 0;                             // of layers' steps so far
  IndexArray<BufferKind, DType, kNumBufferKinds> type_of_kind_{};  // Draft::dtype_of
  IndexArray<HostData, IndexVector<Microbatch, BufferId>, kNumHostData> batches_;
  IndexArray<HostData, BufferId, kNumHostData> constants_;  // the same for all microbatches
  IndexVector<int, BufferId> statistics_;  // by layer; invalid if the layer has none here
  IndexVector<Microbatch, int> loss_of_;   // by microbatch: its place in "losses"
  std::map<std::pair<BufferId, int>, BufferId> parts_;  // by buffer and number of the part
  std::map<std::size_t, OpId> gradient_received_;       // by cell, for pairs that run as one
  OpId begin_after_;                                    // an op for which the next call also waits
};

bool splits_backward(const Schedule& schedule) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(), [](const Actions& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return action.phase == Phase::I; });
  });
}

/// Gives each role its ranks, which are those with its coordinate along "pp".
void assign_ranks(Draft& draft) {
  const Mesh& mesh = draft.program.mesh;
  const int pp = mesh.index_of("pp");
  for (Rank rank = 0; rank < mesh.world_size(); ++rank) {
    const int r = mesh.coordinate(rank, pp);
    draft.program.role_of_rank.push_back({r});
    draft.roles[r].role.ranks.push_back(rank);
  }
}

}  // namespace

void expand(Draft& draft) {
  draft.roles.clear();
  if (splits_backward(draft.schedule)) {
    for (LayerKind& kind : draft.model.kinds) kind.functions.split_backward();
  }
  const P2pPosting posting = draft.scenario.strategy.pipeline_parallel_p2p;
  const Messages messages(draft.schedule,
                          posting == P2pPosting::Async || posting == P2pPosting::Preposted);
  KnownSteps known;
  for (int r = 0; r < draft.scenario.strategy.pipeline_parallel_degree; ++r) {
    RoleExpander expander(draft, known, messages, r);
    if (r > 0) expander.reserve_as(draft.roles[r - 1].role);
    draft.roles.push_back(expander.run());
  }
  assign_ranks(draft);
}

}  // namespace lockstep
