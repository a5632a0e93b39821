// pair: gives their times to passes that run as one. In the synthetic model, an overlapped pair
// takes the sum of its two passes times a factor, which is below 1 if each hides the other's
// communication.
#include <map>
#include <string>
#include <tuple>

#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// The passes that run as one with another, by phase, stage and microbatch.
using Paired = std::map<std::tuple<Phase, Stage, Microbatch>, bool>;

Paired paired(const Actions& actions) {
  Paired result;
  for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
    if (!actions[i].overlaps_next) continue;
    for (const Action& a : {actions[i], actions[i + 1]}) {
      result[{a.phase, a.stage, a.microbatch}] = true;
    }
  }
  return result;
}

}  // namespace

void pair(ProgramBuilder& build, IndexVector<int, DraftRole>& roles, const Schedule& schedule,
          double factor) {
  if (factor == 1) return;
  for (std::size_t r = 0; r < roles.size(); ++r) {
    const Paired pairs = paired(schedule.actions[r]);
    for (Op& op : roles[r].role.ops) {
      if (op.kind != OpKind::Call ||
          pairs.count({Phase{op.phase}, op.stage, Microbatch{op.microbatch}}) == 0) {
        continue;
      }
      Function function = build.program.function(op.function());
      function.name += ".pair";
      for (Kernel& kernel : function.kernels) {
        kernel.scalars[0] *= factor;
      }
      op.target = build.function(function).v;
    }
  }
}

}  // namespace lockstep
