// reduce with shards: reduce-scatters a unit's gradient, when it is ready, to the ranks that update
// its shards (Rajbhandari et al. 2020). ZeRO stage 1 keeps gradients whole, in one flat buffer. If
// there are replicas of the shards (HYBRID_SHARD), the reduced shard is then summed over them, once
// or for each microbatch. With quantized gradients, ranks exchange codes of them instead
// (quantized.hpp).
#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/draft/op_writer.hpp"
#include "core/lower/reduce/quantized.hpp"
#include "core/lower/reduce/reduce.hpp"

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
    sum_over_replicas(u, place_after(ready), unit.reduced);
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
      const bool sums_each = strategy_.all_reduce_each_microbatch && layout.shard_group.valid();
      const Microbatch microbatch = role_.buffer(g.buffer).microbatch;
      if (sums_each) sum_over_replicas(g.unit, place, shard, microbatch);
      if (begun[g.unit]) {
        const DType type = draft_.dtype_of(BufferKind::Grad);
        at(place, g.unit, microbatch, sums_each ? Stream::Replicate : Stream::Reduce)
            .call(copy_function(draft_, layout.shard_elements, type, type, true),
                  {shard, unit.reduced});
      } else {
        unit.reduced = shard;
      }
      begun[g.unit] = true;
      if (--left[g.unit] == 0 && !sums_each) sum_over_replicas(g.unit, place, unit.reduced);
    }
  }

  /// Writes what reduces unit `u` into the list, at a place.
  OpWriter at(std::size_t place, std::size_t u, Microbatch microbatch,
              Stream stream = Stream::Reduce) {
    return {draft_, role_, Phase::None, layer_of(out_, u), microbatch, stream, &insertions_, place};
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
    const OpWriter writer = at(place, u, role_.buffer(whole).microbatch);
    if (strategy_.zero_quantized_gradients) {
      exchange_quantized(writer, shards, role_.units[u].shard_elements, whole, shard);
    } else {
      writer.communicate(OpKind::ReduceScatter, Stream::Reduce, shards, {whole, shard});
    }
  }
  void sum_over_replicas(std::size_t u, std::size_t place, BufferId shard,
                         Microbatch microbatch = -1) {
    const UnitLayout& layout = layout_of(draft_, out_.units[u]);
    if (replicas(draft_, layout) == 1) return;
    at(place, u, microbatch)
        .communicate(OpKind::AllReduce, Stream::Replicate, replica_group(draft_, layout), {shard});
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
