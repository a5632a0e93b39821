#include "backends/sim/stream_order.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep::sim {

StreamOrder stream_order(const Role& role) {
  StreamOrder order;
  for (const Op& op : role.ops) ++order.begin[to_size(op.stream) + 1];
  std::partial_sum(std::begin(order.begin), std::end(order.begin), order.begin);
  order.ops.resize(role.ops.size());
  std::uint32_t next[kNumStreams];
  std::copy_n(order.begin, kNumStreams, next);
  for (const OpId id : role.ops.ids()) {
    order.ops[next[to_size(role.op(id).stream)]++] = static_cast<std::uint32_t>(id.v);
  }
  return order;
}

IndexVector<OpId, std::uint32_t> places(const StreamOrder& order) {
  IndexVector<OpId, std::uint32_t> places(order.ops.size());
  for (std::uint32_t i = 0; i < order.ops.size(); ++i) places[std::size_t{order.ops[i]}] = i;
  return places;
}

void find_begins(const Role& role, const IndexVector<OpId, std::uint32_t>& places,
                 std::span<const ActiveTime> times, std::span<SimTime> begins) {
  SimTime stream_end[kNumStreams] = {};
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.op(id);
    SimTime& previous_end = stream_end[to_size(op.stream)];
    SimTime begin = previous_end;
    for (const OpId dependency : role.after_of(op)) {
      begin = std::max(begin, times[places[dependency]].end);
    }
    begins[places[id]] = begin;
    previous_end = times[places[id]].end;
  }
}

}  // namespace lockstep::sim
