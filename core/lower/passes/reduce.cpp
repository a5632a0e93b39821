// reduce: sums gradients over the ranks that read other data. Whether the states are sharded
// decides which of two ways is taken.
#include "core/lower/reduce/reduce.hpp"

#include "core/lower/draft/dependencies.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

/// Lets the reductions at the end of a role's list wait for the last op of its backward pass.
void wait_for_backward(Role& role) {
  Dependencies dependencies(role);
  OpId computed;  // the newest op of the compute stream so far
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const OpId id{static_cast<std::int32_t>(i)};
    const Op& op = role.ops[i];
    const bool reduces = op.stream == Stream::Reduce || op.stream == Stream::Replicate;
    dependencies.begin(id);
    if (reduces && is_collective(op.kind) && computed.valid()) dependencies.add(computed);
    if (op.stream == Stream::Compute) computed = id;
    dependencies.end();
  }
  dependencies.store();
}

}  // namespace

void reduce(Draft& draft) {
  if (draft.model.units.empty()) return;
  for (DraftRole& out : draft.roles) {
    if (!out.updates.empty()) continue;  // the pass "versions" reduces for each update
    if (draft.scenario.strategy.state_shards() > 1) {
      scatter_gradients(draft, out);
      all_reduce_buckets(draft, out, true);
    } else {
      all_reduce_buckets(draft, out, false);
    }
    if (!draft.scenario.strategy.overlap_grad_reduce) wait_for_backward(out.role);
  }
}

}  // namespace lockstep
