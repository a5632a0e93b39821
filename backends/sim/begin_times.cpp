#include <algorithm>

#include "backends/sim/engine.hpp"

namespace lockstep::sim {

IndexVector<OpId, SimTime> begin_times(const Role& role, const IndexVector<OpId, OpTiming>& times) {
  IndexVector<OpId, SimTime> begin(role.ops.size());
  SimTime stream_end[kNumStreams] = {};
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    SimTime& previous_end = stream_end[static_cast<int>(role.ops[i].stream)];
    begin[i] = previous_end;
    for (const OpId dependency : role.after_of(role.ops[i])) {
      begin[i] = std::max(begin[i], times[dependency].end);
    }
    previous_end = times[i].end;
  }
  return begin;
}

}  // namespace lockstep::sim
