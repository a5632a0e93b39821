// reduce with shards: reduce-scatters a unit's gradient, when it is ready, to the ranks that update
// its shards (Rajbhandari et al. 2020). ZeRO stage 1 keeps gradients whole, in one flat buffer. If
// there are replicas of the shards (HYBRID_SHARD), the reduced shard is then summed over them. With
// quantized gradients, ranks exchange codes of them instead (Wang et al. 2023, ZeRO++).
#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/passes/codes.hpp"
#include "core/lower/passes/reduce.hpp"

namespace lockstep {
namespace {

class Scatterer {
 public:
  Scatterer(Draft& draft, DraftRole& out)
      : draft_(draft), out_(out), strategy_(draft.scenario.strategy) {}

  void run() {
    const std::vector<std::size_t> ready = last_gradient_write(draft_.program, out_);
    if (strategy_.zero_stage == 1) lay_out_gradients();
    if (draft_.scenario.accumulates_shards()) {
      reduce_each_microbatch();
    } else {
      for (std::size_t u = 0; u < role_.units.size(); ++u) {
        if (scatters(u)) reduce(u, ready[u]);
      }
    }
    insert_ops(role_, std::move(insertions_));  // keeps the order of those at one place
  }

 private:
  /// What is measured, of which the largest is taken, is in no shards.
  bool scatters(std::size_t u) const {
    return out_.units[u].trained() && !takes_largest(layout_of(draft_, out_.units[u]));
  }

  /// For stage 1, lays the gradients out in one flat buffer.
  void lay_out_gradients() {
    Buffer flat;
    flat.kind = BufferKind::Grad;
    flat.dtype = draft_.dtype_of(BufferKind::Grad);
    flat.name = draft_.name("grads");
    for (std::size_t u = 0; u < role_.units.size(); ++u) {
      const Unit& unit = role_.units[u];
      if (scatters(u)) flat.bytes += full_bytes(draft_.program, unit, flat);
    }
    const BufferId grads = add_buffer(role_, flat);
    std::int64_t at = 0;
    for (std::size_t u = 0; u < role_.units.size(); ++u) {
      if (!scatters(u)) continue;
      Buffer& grad = role_.buffers[out_.units[u].grad];
      grad.set_view(grads);
      grad.offset = at;
      at += grad.bytes.v;
    }
  }

  void reduce(std::size_t u, std::size_t ready) {
    DraftUnit& unit = out_.units[u];
    const GroupId shards = role_.units[u].shard_group;
    const Bytes bytes = shard_bytes(role_.units[u], role_.buffer(unit.grad));
    if (!shards.valid()) {
      unit.reduced = unit.grad;
    } else if (strategy_.zero_stage == 1) {
      unit.reduced = add_piece(role_, unit.grad, shards, bytes);
    } else {
      unit.reduced = add_shard(unit.grad, bytes);
    }
    scatter(u, place_after(ready), unit.grad, unit.reduced);
    sum_over_replicas(u, place_after(ready));
  }

  /// Accumulates gradients in shards, so that whole gradients live no longer than their microbatch.
  /// The sum is taken on the stream of the reduce-scatters, as in fully_shard, so that the backward
  /// pass does not wait for it.
  void reduce_each_microbatch() {
    std::vector<MicrobatchGradient> gradients = split_by_microbatch(draft_, out_);
    std::erase_if(gradients, [&](const MicrobatchGradient& g) { return !scatters(g.unit); });
    std::vector<std::size_t> left(role_.units.size(), 0);
    for (const MicrobatchGradient& g : gradients) ++left[g.unit];
    std::vector<bool> begun(role_.units.size(), false);
    for (const MicrobatchGradient& g : gradients) {
      DraftUnit& unit = out_.units[g.unit];
      const Unit& layout = role_.units[g.unit];
      const std::size_t place = place_after(g.ready);
      const BufferId shard = !layout.shard_group.valid()
                                 ? g.buffer
                                 : add_shard(g.buffer, shard_bytes(layout, role_.buffer(g.buffer)));
      scatter(g.unit, place, g.buffer, shard);
      if (begun[g.unit]) {
        Op add = add_op_of(layout.shard_elements, layer_of(out_, g.unit));
        add.microbatch = role_.buffer(g.buffer).microbatch;
        insertions_.push_back({place, add, {shard, unit.reduced}});
      } else {
        unit.reduced = shard;
      }
      begun[g.unit] = true;
      if (--left[g.unit] == 0) sum_over_replicas(g.unit, place);
    }
  }

  Op add_op_of(std::int64_t elements, int layer) {
    Op op;
    op.stream = Stream::Reduce;
    const DType dtype = draft_.dtype_of(BufferKind::Grad);
    op.target = copy_function(draft_, elements, dtype, dtype, true).v;
    op.layer = static_cast<std::int16_t>(layer);
    return op;
  }
  /// The place directly after the op that makes a gradient ready, and after the gathers that go out
  /// with that op.
  std::size_t place_after(std::size_t ready) const {
    if (!strategy_.overlap_grad_reduce) return role_.ops.size();
    std::size_t place = ready + 1;
    while (place < role_.ops.size() && role_.ops[place].stream == Stream::Gather) ++place;
    return place;
  }
  BufferId add_shard(BufferId whole, Bytes bytes) {
    Buffer shard = role_.buffer(whole);
    shard.bytes = bytes;
    return add_buffer(role_, shard);
  }
  void scatter(std::size_t u, std::size_t place, BufferId whole, BufferId shard) {
    const GroupId shards = role_.units[u].shard_group;
    if (!shards.valid()) return;
    if (strategy_.zero_quantized_gradients) return exchange_codes(u, place, whole, shard);
    Op op = collective(OpKind::ReduceScatter, Stream::Reduce, shards, layer_of(out_, u));
    op.microbatch = role_.buffer(whole).microbatch;
    insertions_.push_back({place, op, {whole, shard}});
  }
  /// ZeRO++'s reduce-scatter: codes of the gradient's pieces go to the ranks that own these, which
  /// add up what they stand for. Where neighbours exchange first, each of them is sent the pieces
  /// of all that have its place elsewhere, and their sums are then exchanged between these.
  void exchange_codes(std::size_t u, std::size_t place, BufferId whole, BufferId shard) {
    const GroupId shards = role_.units[u].shard_group;
    const Mesh& mesh = draft_.program.mesh;
    const std::int64_t ranks = group_size(mesh, draft_.program.group(shards));
    const Buffer gradient = role_.buffer(whole);
    CodedParts what{role_.units[u].shard_elements, ranks, strategy_.zero_quantized_block_size,
                    strategy_.zero_quantized_gradients_bits};
    const std::int64_t outer = mesh.size_of("dp_shard");
    if (strategy_.inner_shards() == 1 || outer == 1) {
      return exchange(u, place, shards, what, ranks, whole, shard);
    }
    std::vector<std::string_view> inner;
    for (const int dim : draft_.program.group(shards).dims) {
      if (mesh.dims[dim].name != "dp_shard") inner.push_back(mesh.dims[dim].name);
    }
    Buffer slices = gradient;
    slices.kind = BufferKind::Comm;
    slices.dtype = sum_type(gradient.dtype);
    slices.bytes = Bytes{what.elements * outer * size_of(slices.dtype)};
    slices.set_view({});
    slices.offset = 0;
    slices.name = draft_.name("slices");
    const BufferId sums = add_buffer(role_, slices);
    exchange(u, place, draft_.group("dp_inner", inner), what, ranks / outer, whole, sums);
    what.parts = outer;
    exchange(u, place, draft_.group("dp_outer", {"dp_shard"}), what, outer, sums, shard);
  }
  /// One exchange between `ranks` of a group, of the codes of `from`; `to` gets the sums of what
  /// arrives.
  void exchange(std::size_t u, std::size_t place, GroupId group, const CodedParts& what,
                std::int64_t ranks, BufferId from, BufferId to) {
    const int layer = layer_of(out_, u);
    const Microbatch microbatch = role_.buffer(from).microbatch;
    const BufferId sent = add_codes(draft_, role_, what.bytes(), layer);
    const BufferId arrived = add_codes(draft_, role_, what.bytes(), layer);
    const auto insert = [&](Op op, const std::vector<BufferId>& args) {
      op.stream = Stream::Reduce;
      op.layer = static_cast<std::int16_t>(layer);
      op.microbatch = microbatch;
      insertions_.push_back({place, op, args});
    };
    Op call;
    call.target = to_codes(draft_, what, ranks, role_.buffer(from).dtype).v;
    insert(call, {from, sent});
    insert(collective(OpKind::AllToAll, Stream::Reduce, group, layer), {sent, arrived});
    call.target = from_codes(draft_, what, ranks, role_.buffer(to).dtype).v;
    insert(call, {arrived, to});
  }
  void sum_over_replicas(std::size_t u, std::size_t place) {
    const UnitLayout& layout = layout_of(draft_, out_.units[u]);
    if (replicas(draft_, layout) == 1) return;
    insertions_.push_back({place,
                           collective(OpKind::AllReduce, Stream::Replicate,
                                      replica_group(draft_, layout), layer_of(out_, u)),
                           {out_.units[u].reduced}});
  }

  Draft& draft_;
  DraftRole& out_;
  Role& role_ = out_.role;
  const StrategySpec& strategy_;
  std::vector<Insertion> insertions_;
};

}  // namespace

void scatter_gradients(Draft& draft, DraftRole& out) { Scatterer(draft, out).run(); }

}  // namespace lockstep
