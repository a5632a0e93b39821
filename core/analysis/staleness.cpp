#include "core/analysis/staleness.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep {

int weight_staleness(const Program& program, const Role& role) {
  if (program.updates_per_step == 1) return 0;
  std::set<Microbatch> microbatches;
  for (const Op& op : role.ops) {
    if (op.phase == Phase::F && op.kind == OpKind::Call) microbatches.insert(op.microbatch);
  }
  const int per_update =
      std::max(1, static_cast<int>(microbatches.size()) / program.updates_per_step);
  std::map<BufferId, int> updates_in;  // by root buffer of weights or of a copy
  for (const Unit& unit : role.units) updates_in[role.root(unit.param)] = 0;
  int most = 0;
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::Call) continue;
    const auto args = role.args_of(op);
    for (std::size_t a = 0; a < args.size(); ++a) {
      const BufferId root = role.root(args[a]);
      const bool copy = role.buffer(root).kind == BufferKind::ParamVersion;
      if (op.phase == Phase::O && access(program, op, a) != Access::Read) {
        if (copy) updates_in[root] = updates_in[role.root(args[0])];
        if (!copy && updates_in.count(root) > 0) ++updates_in[root];
      } else if (op.phase == Phase::F && updates_in.count(root) > 0) {
        most = std::max(most, op.microbatch / per_update - updates_in[root]);
      }
    }
  }
  return most;
}

}  // namespace lockstep
