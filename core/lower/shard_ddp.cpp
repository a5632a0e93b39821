// shard_ddp: gradients in buckets, each all-reduced when its last gradient is ready.
#include <algorithm>

#include "core/lower/shard.hpp"

namespace lockstep {

/// Li et al. 2020 (PyTorch DDP): parameters in reverse order fill buckets; a bucket closes when it
/// reaches its cap, the tensor that crosses staying in; buckets are reduced strictly in order.
void all_reduce_buckets(Draft& draft, DraftRole& out) {
  Role& role = out.role;
  const StrategySpec& strategy = draft.scenario.strategy;
  const std::int64_t element = size_of(draft.program.dtype);
  const GroupId dp = data_group(draft);
  const std::vector<std::size_t> ready = last_gradient_write(draft.program, out);

  // One flat buffer in parameter order, so that a bucket is one range of it.
  std::int64_t total = 0;
  for (const Unit& unit : role.units) total += unit.elements * element;
  Buffer flat;
  flat.bytes = Bytes{total};
  flat.kind = BufferKind::Grad;
  flat.dtype = draft.program.dtype;
  flat.name = draft.name("grads");
  const BufferId grads = add_buffer(role, flat);
  struct Piece {
    std::int64_t begin, end;
    std::size_t unit;
  };
  std::vector<Piece> pieces;
  std::int64_t at = 0;
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    Buffer& grad = role.buffers[static_cast<std::size_t>(out.units[u].grad.v)];
    grad.parent = grads;
    grad.offset = at;
    for (const UnitParameter& p : role.units[u].parameters) {
      const std::int64_t bytes =
          draft.program.parameters[static_cast<std::size_t>(p.parameter.v)].elements() * element;
      pieces.push_back({at, at + bytes, u});
      at += bytes;
    }
  }

  std::vector<Insertion> insertions;
  std::int64_t cap = std::min(strategy.first_bucket_cap.v, strategy.bucket_cap.v);
  std::size_t after = 0;  // op that the bucket waits for
  const auto close = [&](std::int64_t begin, std::int64_t end) {
    const BufferId bucket = add_view(role, grads, begin, Bytes{end - begin});
    insertions.push_back({strategy.overlap_grad_reduce ? after + 1 : role.ops.size(),
                          collective(OpKind::AllReduce, Stream::Reduce, dp, -1),
                          {bucket}});
    cap = strategy.bucket_cap.v;
  };
  std::int64_t end = total;
  for (std::size_t i = pieces.size(); i-- > 0;) {
    after = std::max(after, ready[pieces[i].unit]);
    if (end - pieces[i].begin >= cap || i == 0) {
      close(pieces[i].begin, end);
      end = pieces[i].begin;
    }
  }
  insert_ops(role, std::move(insertions));
}

}  // namespace lockstep
