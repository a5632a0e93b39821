// reduce: sums gradients over the ranks that read other data. Whether the states are sharded
// decides which of two ways is taken.
#include "core/lower/passes/reduce.hpp"

#include "core/lower/passes/passes.hpp"

namespace lockstep {

void reduce(Draft& draft) {
  if (draft.model.units.empty()) return;
  for (DraftRole& out : draft.roles) {
    if (!out.updates.empty()) continue;  // the pass "versions" reduces for each update
    if (draft.scenario.strategy.state_shards() > 1) {
      scatter_gradients(draft, out);
    } else {
      all_reduce_buckets(draft, out);
    }
  }
}

}  // namespace lockstep
