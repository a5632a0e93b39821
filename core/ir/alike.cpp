#include "core/ir/alike.hpp"

#include <algorithm>

namespace lockstep {
namespace {

bool alike(const Op& a, const Op& b) {
  return a.kind == b.kind && a.stream == b.stream && a.args_begin == b.args_begin &&
         a.args_count == b.args_count && a.after_begin == b.after_begin &&
         a.after_count == b.after_count && a.phase == b.phase && a.kind != OpKind::Broadcast &&
         (a.target == b.target || is_p2p(a.kind)) && (a.stage < 0) == (b.stage < 0);
}

bool alike(const Buffer& a, const Buffer& b) {
  return a.bytes == b.bytes && a.offset == b.offset && a.first() == b.first() &&
         a.last() == b.last() && a.parent() == b.parent() && a.piece_of() == b.piece_of() &&
         a.tier == b.tier;
}

bool alike(const Unit& a, const Unit& b) { return a.states == b.states; }

template <class List>
bool all_alike(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return alike(x, y); });
}

}  // namespace

bool alike(const Role& a, const Role& b) {
  return a.args.size() == b.args.size() && all_alike(a.ops, b.ops) && a.args == b.args &&
         a.after == b.after && all_alike(a.buffers, b.buffers) && all_alike(a.units, b.units);
}

std::vector<std::size_t> first_alike(const std::vector<const Role*>& roles) {
  std::vector<std::size_t> first;
  for (std::size_t r = 0; r < roles.size(); ++r) {
    const bool as_before = r > 0 && alike(*roles[r - 1], *roles[r]);
    first.push_back(as_before ? first.back() : r);
  }
  return first;
}

void take_plan(Role& role, const Role& other) {
  role.after = other.after;
  for (const OpId id : role.ops.ids()) {
    role.ops[id].after_begin = other.op(id).after_begin;
    role.ops[id].after_count = other.op(id).after_count;
  }
  for (const BufferId id : role.buffers.ids()) {
    const Buffer& planned = other.buffer(id);
    role.buffers[id].offset = planned.offset;
    if (!planned.is_view()) role.buffers[id].set_lifetime(planned.first(), planned.last());
  }
  role.arena = other.arena;
  role.host_arena = other.host_arena;
  role.drive_arena = other.drive_arena;
}

}  // namespace lockstep
