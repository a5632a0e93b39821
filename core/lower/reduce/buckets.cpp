// reduce without shards: puts gradients into buckets, and all-reduces each when its last gradient
// is ready. With PowerSGD, matrices are summed as products of low rank (low_rank.hpp).
#include <algorithm>
#include <map>
#include <utility>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/gradients.hpp"
#include "core/lower/reduce/low_rank.hpp"
#include "core/lower/reduce/reduce.hpp"

namespace lockstep {

namespace {

/// The gradients of the units that one group reduces, as one flat buffer in the order of
/// parameters, so that a bucket is a range of it. Gradients are views of that buffer, or are copied
/// there to be reduced and back again (see gradient_as_bucket_view of PyTorch's DDP).
class Buckets {
 public:
  /// `largest` as in Op.
  Buckets(Draft& draft, DraftRole& out, GroupId group, bool largest)
      : draft_(draft), out_(out), role_(out.role), group_(group), largest_(largest) {}

  void add(std::size_t u, std::size_t ready) {
    const std::int64_t element = size_of(draft_.dtype_of(BufferKind::Grad));
    units_.push_back({u, total_});
    const Unit& unit = role_.units[u];
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const std::int64_t bytes = held_elements(draft_.program, unit, unit.parameters[p]) * element;
      pieces_.push_back({total_, total_ + bytes, ready, {u, p}});
      total_ += bytes;
    }
  }

  /// Li et al. 2020 (PyTorch DDP): parameters fill buckets in reverse order. A bucket closes when
  /// it reaches its cap, and keeps the tensor that crosses it. Buckets are reduced strictly in
  /// order.
  void reduce(std::vector<Insertion>& insertions) {
    lay_out();
    const StrategySpec& strategy = draft_.scenario.strategy;
    std::int64_t cap = std::min(strategy.first_bucket_cap.v, strategy.bucket_cap.v);
    std::int64_t end = total_;
    std::size_t after = 0;  // the op for which the bucket waits
    std::vector<BucketPart> parts;
    for (std::size_t i = pieces_.size(); i-- > 0;) {
      after = std::max(after, pieces_[i].ready);
      parts.push_back(pieces_[i].part);
      if (end - pieces_[i].begin < cap && i > 0) continue;
      const std::int64_t begin = pieces_[i].begin;
      const std::size_t place = strategy.overlap_grad_reduce ? after + 1 : role_.ops.size();
      if (strategy.power_sgd.on() && has_low_rank(parts)) {
        std::reverse(parts.begin(), parts.end());
        sum_low_rank(draft_, out_, parts, group_, place, insertions);
      } else if (group_.valid()) {
        if (!views()) copy(place, begin, end, true, insertions);
        Op op = collective(OpKind::AllReduce, Stream::Reduce, group_, -1);
        op.largest = largest_;
        insertions.push_back({place, op, {add_view(role_, grads_, begin, Bytes{end - begin})}});
        if (!views()) copy(role_.ops.size(), begin, end, false, insertions);
      }
      parts.clear();
      cap = strategy.bucket_cap.v;
      end = begin;
    }
  }

 private:
  void lay_out() {
    Buffer flat;
    flat.bytes = Bytes{total_};
    flat.kind = views() ? BufferKind::Grad : BufferKind::Comm;
    flat.dtype = draft_.dtype_of(BufferKind::Grad);
    flat.name = draft_.name(views() ? "grads" : "buckets");
    grads_ = add_buffer(role_, flat);
    if (!views()) return;
    for (const auto& [u, at] : units_) {
      Buffer& grad = role_.buffers[out_.units[u].grad];
      grad.set_view(grads_);
      grad.offset = at;
    }
  }

  bool has_low_rank(const std::vector<BucketPart>& parts) const {
    return std::any_of(parts.begin(), parts.end(), [&](const BucketPart& part) {
      return role_.units[part.unit].parameters[part.parameter].low_rank > 0;
    });
  }
  bool views() const { return draft_.scenario.strategy.gradient_as_bucket_view; }

  /// Copies bytes [begin, end) of the buckets from the units' gradients, or back to them.
  void copy(std::size_t place, std::int64_t begin, std::int64_t end, bool in,
            std::vector<Insertion>& insertions) {
    const DType dtype = draft_.dtype_of(BufferKind::Grad);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const auto [u, at] = units_[i];
      const std::int64_t next = i + 1 < units_.size() ? units_[i + 1].second : total_;
      const std::int64_t from = std::max(begin, at), to = std::min(end, next);
      if (from >= to) continue;
      const BufferId own = add_view(role_, out_.units[u].grad, from - at, Bytes{to - from});
      const BufferId bucket = add_view(role_, grads_, from, Bytes{to - from});
      Op op;
      op.kind = OpKind::Call;
      op.layer = static_cast<std::int16_t>(layer_of(out_, u));
      op.target = copy_function(draft_, (to - from) / size_of(dtype), dtype, dtype, false).v;
      insertions.push_back({place, op, {in ? own : bucket, in ? bucket : own}});
    }
  }

  struct Piece {
    std::int64_t begin, end;
    std::size_t ready;  // the op that writes it last
    BucketPart part;
  };
  Draft& draft_;
  DraftRole& out_;
  Role& role_;
  const GroupId group_;
  const bool largest_;
  std::vector<std::pair<std::size_t, std::int64_t>> units_;  // each with its begin in the buffer
  std::vector<Piece> pieces_;
  std::int64_t total_ = 0;
  BufferId grads_;
};

}  // namespace

void all_reduce_buckets(Draft& draft, DraftRole& out, bool measured_alone) {
  const std::vector<std::size_t> ready = last_gradient_write(draft.program, out);
  std::map<std::pair<GroupId, bool>, Buckets> by_group;
  for (std::size_t u = 0; u < out.units.size(); ++u) {
    const UnitLayout& layout = layout_of(draft, out.units[u]);
    // What is measured, as scales are, is no gradient, and is summed as it is.
    const bool low_rank = draft.scenario.strategy.power_sgd.on() && layout.has_gradient();
    const bool alone = replicas(draft, layout) == 1, largest = takes_largest(layout);
    if (layout.frozen || (alone && !low_rank) || (measured_alone && !largest)) continue;
    const GroupId group = alone ? GroupId{} : replica_group(draft, layout);
    if (low_rank) declare_low_rank(draft, out, u, group);
    by_group.try_emplace({group, largest}, draft, out, group, largest)
        .first->second.add(u, ready[u]);
  }
  std::vector<Insertion> insertions;
  for (auto& [group, buckets] : by_group) buckets.reduce(insertions);
  insert_ops(out.role, std::move(insertions));
}

}  // namespace lockstep
