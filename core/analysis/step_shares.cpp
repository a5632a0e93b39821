#include "core/analysis/step_shares.hpp"

namespace lockstep {

StepShares::StepShares(const Trace& trace, const Program* program) {
  if (program == nullptr || program->sync_every == 0) return;
  for (const Span& span : trace.spans) {
    bool& synchronizes = synchronizes_[span.step];
    if (synchronizes) continue;
    const TraceOp& op = trace.roles[trace.role_of_rank[span.rank]].ops[span.op];
    synchronizes = static_cast<Phase>(op.phase) == Phase::S;
  }
  double with = 0, without = 0;
  for (const auto& [step, synchronizes] : synchronizes_) ++(synchronizes ? with : without);
  if (with == 0 || without == 0) return;
  const double period = program->sync_every, steps = with + without;
  synchronizing_ = steps / period / with;
  apart_ = steps * (period - 1) / period / without;
}

}  // namespace lockstep
