// shard: what data parallelism adds. DDP: gradients in buckets, each all-reduced when its last
// gradient is ready. FSDP (ZeRO-3): parameters gathered per unit just ahead of use, gradients
// reduce-scattered as each unit's backward ends. Then the tied embedding of first and last stage.
#include <algorithm>
#include <limits>

#include "core/lower/draft.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// For each unit, the last op that writes its gradient; kNever without one.
std::vector<std::size_t> last_gradient_write(const Program& program, const DraftRole& draft) {
  const Role& role = draft.role;
  std::vector<int> unit_of(role.buffers.size(), -1);
  for (std::size_t u = 0; u < draft.units.size(); ++u) {
    unit_of[static_cast<std::size_t>(draft.units[u].grad.v)] = static_cast<int>(u);
  }
  std::vector<std::size_t> last(draft.units.size(), kNever);
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const auto args = role.args_of(role.ops[i]);
    for (std::size_t a = 0; a < args.size(); ++a) {
      const int unit = unit_of[static_cast<std::size_t>(args[a].v)];
      if (unit >= 0 && access(program, role.ops[i], a) != Access::Read) {
        last[static_cast<std::size_t>(unit)] = i;
      }
    }
  }
  return last;
}

Op collective(OpKind kind, Stream stream, GroupId group, int layer) {
  Op op;
  op.kind = kind;
  op.stream = stream;
  op.target = group.v;
  op.layer = static_cast<std::int16_t>(layer);
  return op;
}

int layer_of(const DraftRole& draft, std::size_t unit) {
  return draft.role.buffer(draft.role.units[unit].param).layer;
}

/// Li et al. 2020 (PyTorch DDP): parameters in reverse order fill buckets; a bucket closes when it
/// reaches its cap, the tensor that crosses staying in; buckets are reduced strictly in order.
void all_reduce_buckets(Draft& draft, DraftRole& out) {
  Role& role = out.role;
  const StrategySpec& strategy = draft.scenario.strategy;
  const std::int64_t element = size_of(draft.program.dtype);
  const GroupId dp = draft.group("dp", {"dp_replicate"});
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

/// A stretch of the step during which one gathered copy of a unit serves.
struct Episode {
  std::size_t unit = 0;
  std::size_t first = 0;            // op
  std::vector<std::uint32_t> args;  // positions in Role::args that read the copy
};

/// Runs of uses of the same unit. Units kept gathered have one; others a new one whenever another
/// such unit was used in between: that is when the copy would have been dropped.
std::vector<Episode> episodes(const DraftRole& out, const std::vector<bool>& keep) {
  const Role& role = out.role;
  std::vector<int> unit_of(role.buffers.size(), -1);
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    unit_of[static_cast<std::size_t>(role.units[u].param.v)] = static_cast<int>(u);
  }
  std::vector<Episode> found;
  std::vector<std::size_t> current(role.units.size(), kNever);
  std::size_t latest = kNever;  // unit of the last use, kept ones aside
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    for (std::uint32_t a = op.args_begin; a < op.args_begin + op.args_count; ++a) {
      const int u = unit_of[static_cast<std::size_t>(role.args[a].v)];
      if (u < 0) continue;
      const std::size_t unit = static_cast<std::size_t>(u);
      if (current[unit] == kNever || (!keep[unit] && latest != unit)) {
        current[unit] = found.size();
        found.push_back({unit, i, {}});
      }
      if (!keep[unit]) latest = unit;
      found[current[unit]].args.push_back(a);
    }
  }
  return found;
}

/// Zhao et al. 2023 (FSDP), Rajbhandari et al. 2020 (ZeRO-3): the event rules of fully_shard.
void fully_shard(Draft& draft, DraftRole& out) {
  Role& role = out.role;
  const StrategySpec& strategy = draft.scenario.strategy;
  const std::int64_t element = size_of(draft.program.dtype);
  const int shards = strategy.data_parallel_shard_degree;
  const GroupId dp = draft.group("dp", {"dp_shard"});
  const std::vector<std::size_t> ready = last_gradient_write(draft.program, out);
  const bool reshard = strategy.fsdp_reshard_after_forward == ReshardAfterForward::Always ||
                       (strategy.fsdp_reshard_after_forward == ReshardAfterForward::Default &&
                        strategy.pipeline_parallel_degree == 1);

  // The root group (embedding, head, tied weights) stays gathered, as in fully_shard.
  std::vector<bool> keep;
  for (const Unit& unit : role.units) {
    keep.push_back(!reshard || unit.name.rfind("blocks.", 0) != 0);
  }
  std::vector<Insertion> insertions;
  const std::vector<Episode> all = episodes(out, keep);
  std::vector<std::int64_t> padded;
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    padded.push_back(round_up(role.units[u].elements, shards));
  }
  for (std::size_t e = 0; e < all.size(); ++e) {
    const std::size_t unit = all[e].unit;
    Buffer gathered = role.buffer(role.units[unit].param);
    gathered.kind = BufferKind::ParamFull;
    gathered.bytes = Bytes{padded[unit] * element};
    const BufferId full = add_buffer(role, gathered);
    for (std::uint32_t a : all[e].args) role.args[a] = full;
    const std::size_t ahead = static_cast<std::size_t>(strategy.fsdp_prefetch);
    insertions.push_back({all[e >= ahead ? e - ahead : 0].first,
                          collective(OpKind::AllGather, Stream::Gather, dp, layer_of(out, unit)),
                          {role.units[unit].param, full}});
  }
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    Unit& unit = role.units[u];
    unit.shard_elements = padded[u] / shards;
    unit.shard_group = dp;
    const Bytes shard_bytes{unit.shard_elements * element};
    for (BufferId id : {unit.param, unit.adam_m, unit.adam_v}) {
      role.buffers[static_cast<std::size_t>(id.v)].bytes = shard_bytes;
    }
    Buffer shard = role.buffer(out.units[u].grad);
    shard.bytes = shard_bytes;
    out.units[u].reduced = add_buffer(role, shard);
    insertions.push_back({strategy.overlap_grad_reduce ? ready[u] + 1 : role.ops.size(),
                          collective(OpKind::ReduceScatter, Stream::Reduce, dp, layer_of(out, u)),
                          {out.units[u].grad, out.units[u].reduced}});
  }
  // Gathers listed at one place go out in the order of their use; insert_ops keeps it.
  insert_ops(role, std::move(insertions));
}

}  // namespace

void shard(Draft& draft) {
  const StrategySpec& strategy = draft.scenario.strategy;
  if (draft.model.units.empty()) return;
  for (DraftRole& role : draft.roles) {
    if (strategy.data_parallel_shard_degree > 1) {
      fully_shard(draft, role);
    } else if (strategy.data_parallel_replicate_degree > 1) {
      all_reduce_buckets(draft, role);
    }
  }
  // First and last stage hold a copy of the tied embedding each: their gradients are added up.
  const int p = strategy.pipeline_parallel_degree;
  if (draft.model.tied_unit < 0 || p == 1) return;
  const GroupId embed = draft.group("embed", {"pp"}, {0, p - 1});
  for (int r : {0, p - 1}) {
    DraftRole& out = draft.roles[static_cast<std::size_t>(r)];
    for (std::size_t u = 0; u < out.units.size(); ++u) {
      if (out.units[u].layout != draft.model.tied_unit) continue;
      add_op(out.role, collective(OpKind::AllReduce, Stream::Reduce, embed, layer_of(out, u)),
             {out.units[u].reduced});
    }
  }
}

}  // namespace lockstep
