#include "core/analysis/step_shares.hpp"

#include <algorithm>

namespace lockstep {

StepShares::StepShares(const Trace& trace, const Program* program) {
  if (program == nullptr || program->sync_every == 0) return;
  for (const Spans::Run& run : trace.spans.runs()) {
    const TraceOps& ops = trace.roles[trace.role_of_rank[run.rank]].ops;
    bool& synchronizes = synchronizes_[run.step];
    if (synchronizes) continue;
    synchronizes = std::ranges::any_of(trace.spans.ops(run), [&](OpId op) {
      return static_cast<Phase>(ops[op].phase) == Phase::S;
    });
  }
  double with = 0, without = 0;
  for (const auto& [step, synchronizes] : synchronizes_) ++(synchronizes ? with : without);
  if (with == 0 || without == 0) return;
  const double period = program->sync_every, steps = with + without;
  synchronizing_ = steps / period / with;
  apart_ = steps * (period - 1) / period / without;
}

}  // namespace lockstep
