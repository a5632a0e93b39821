#include "core/analysis/staleness.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep {

std::vector<WeightsRead> weights_read(const Program& program, const Role& role) {
  if (program.updates_per_step == 1) return {};
  std::set<Microbatch> microbatches;
  for (const Op& op : role.ops) {
    if (op.phase == Phase::F && op.kind == OpKind::Call) microbatches.insert(op.microbatch);
  }
  const int per_update =
      std::max(1, static_cast<int>(microbatches.size()) / program.updates_per_step);
  std::map<BufferId, int> updates_in;  // key: root buffer of weights or of a copy of them
  for (const Unit& unit : role.units) updates_in[role.root(unit.param())] = 0;
  std::vector<WeightsRead> read(role.ops.size());
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (op.kind != OpKind::Call) continue;
    const auto args = role.args_of(op);
    for (std::size_t a = 0; a < args.size(); ++a) {
      const BufferId root = role.root(args[a]);
      const bool copy = role.buffer(root).kind == BufferKind::ParamVersion;
      if (op.phase == Phase::O) {
        if (access(program, op, a) == Access::Read) continue;
        if (copy) updates_in[root] = updates_in[role.root(args[0])];
        if (!copy && updates_in.count(root) > 0) ++updates_in[root];
      } else if (const auto weights = updates_in.find(root); weights != updates_in.end()) {
        const int missed = std::max(0, op.microbatch / per_update - weights->second);
        if (read[i].updates < 0 || missed > read[i].missed) read[i] = {weights->second, missed};
      }
    }
  }
  return read;
}

int weight_staleness(const Program& program, const Role& role) {
  int most = 0;
  const std::vector<WeightsRead> read = weights_read(program, role);
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (role.ops[i].phase == Phase::F) most = std::max(most, read[i].missed);
  }
  return most;
}

}  // namespace lockstep
