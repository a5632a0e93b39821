// Edits of a role's list of ops that keep `after` and lifetimes in step with it.
#pragma once

#include <utility>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::test {

/// Gives a role the ops in their new order. `moved` has the new index of every old op, and -1 for
/// those that are deleted.
inline void reorder(Role& role, const std::vector<Op>& ops,
                    const std::vector<std::int32_t>& moved) {
  std::vector<Op> renewed = ops;
  std::vector<OpId> after;
  for (Op& op : renewed) {
    std::vector<OpId> kept;
    for (std::uint32_t i = 0; i < op.after_count; ++i) {
      const std::int32_t to = moved[static_cast<std::size_t>(role.after[op.after_begin + i].v)];
      if (to >= 0) kept.push_back({to});
    }
    op.after_begin = static_cast<std::uint32_t>(after.size());
    op.after_count = static_cast<std::uint8_t>(kept.size());
    after.insert(after.end(), kept.begin(), kept.end());
  }
  const auto place = [&](OpId& id, int step) {
    if (!id.valid()) return;
    std::int32_t v = id.v;
    while (v >= 0 && static_cast<std::size_t>(v) < moved.size() &&
           moved[static_cast<std::size_t>(v)] < 0)
      v += step;
    if (v < 0 || static_cast<std::size_t>(v) >= moved.size()) return;
    id = {moved[static_cast<std::size_t>(v)]};
  };
  for (Buffer& buffer : role.buffers) {
    place(buffer.first, 1);
    place(buffer.last, -1);
  }
  role.ops = std::move(renewed);
  role.after = std::move(after);
}

/// Deletes op `which`. What waited for it waits no more, and a buffer that lived from it or to it
/// has a shorter life.
inline void erase(Role& role, std::size_t which) {
  std::vector<std::int32_t> moved(role.ops.size());
  std::vector<Op> ops;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    moved[i] = i == which ? -1 : static_cast<std::int32_t>(ops.size());
    if (i != which) ops.push_back(role.ops[i]);
  }
  reorder(role, ops, moved);
}

/// Puts a copy of op `which` in front of the op that is now at `to`.
inline void repeat(Role& role, std::size_t which, std::size_t to) {
  std::vector<std::int32_t> moved(role.ops.size());
  std::vector<Op> ops;
  for (std::size_t i = 0; i <= role.ops.size(); ++i) {
    if (i == to) ops.push_back(role.ops[which]);
    if (i == role.ops.size()) break;
    moved[i] = static_cast<std::int32_t>(ops.size());
    ops.push_back(role.ops[i]);
  }
  reorder(role, ops, moved);
}

/// Lets two ops change places.
inline void exchange(Role& role, std::size_t a, std::size_t b) {
  std::vector<std::int32_t> moved(role.ops.size());
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = static_cast<std::int32_t>(i);
  std::swap(moved[a], moved[b]);
  std::vector<Op> ops = role.ops;
  std::swap(ops[a], ops[b]);
  reorder(role, ops, moved);
}

}  // namespace lockstep::test
