// Edits of a role's list of ops that keep `after` and lifetimes in step with it.
#pragma once

#include <utility>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::test {

/// Gives a role the ops in their new order. `moved` has the new id of every old op, which is
/// invalid for those that are deleted.
inline void reorder(Role& role, const IndexVector<OpId, Op>& ops,
                    const IndexVector<OpId, OpId>& moved) {
  IndexVector<OpId, Op> renewed = ops;
  std::vector<OpId> after;
  for (Op& op : renewed) {
    std::vector<OpId> kept;
    for (std::uint32_t i = 0; i < op.after_count; ++i) {
      const OpId to = moved[role.after[op.after_begin + i]];
      if (to.valid()) kept.push_back(to);
    }
    op.after_begin = static_cast<std::uint32_t>(after.size());
    op.after_count = static_cast<std::uint8_t>(kept.size());
    after.insert(after.end(), kept.begin(), kept.end());
  }
  const auto place = [&](OpId id, int step) {
    OpId at = id;
    while (at.valid() && at < moved.next() && !moved[at].valid()) at.v += step;
    return at.valid() && at < moved.next() ? moved[at] : id;
  };
  for (Buffer& buffer : role.buffers) {
    if (buffer.is_view()) continue;
    buffer.set_lifetime(place(buffer.first(), 1), place(buffer.last(), -1));
  }
  role.ops = std::move(renewed);
  role.after = std::move(after);
}

/// Deletes op `which`. What waited for it waits no more, and a buffer that lived from it or to it
/// has a shorter life.
inline void erase(Role& role, std::size_t which) {
  IndexVector<OpId, OpId> moved(role.ops.size());
  IndexVector<OpId, Op> ops;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    moved[i] = i == which ? OpId{} : ops.next();
    if (i != which) ops.push_back(role.ops[i]);
  }
  reorder(role, ops, moved);
}

/// Puts a copy of op `which` in front of the op that is now at `to`.
inline void repeat(Role& role, std::size_t which, std::size_t to) {
  IndexVector<OpId, OpId> moved(role.ops.size());
  IndexVector<OpId, Op> ops;
  for (std::size_t i = 0; i <= role.ops.size(); ++i) {
    if (i == to) ops.push_back(role.ops[which]);
    if (i == role.ops.size()) break;
    moved[i] = ops.next();
    ops.push_back(role.ops[i]);
  }
  reorder(role, ops, moved);
}

/// Lets two ops change places.
inline void exchange(Role& role, std::size_t a, std::size_t b) {
  IndexVector<OpId, OpId> moved(role.ops.size());
  for (const OpId id : moved.ids()) moved[id] = id;
  std::swap(moved[a], moved[b]);
  IndexVector<OpId, Op> ops = role.ops;
  std::swap(ops[a], ops[b]);
  reorder(role, ops, moved);
}

}  // namespace lockstep::test
