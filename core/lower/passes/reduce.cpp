// reduce: gradients are summed over the ranks that hold other data. Which of the two ways is taken
// follows from whether the states are sharded.
#include "core/lower/passes/reduce.hpp"

#include "core/lower/passes/passes.hpp"

namespace lockstep {

void reduce(Draft& draft) {
  if (draft.model.units.empty()) return;
  for (DraftRole& out : draft.roles) {
    if (!out.updates.empty()) continue;  // versions: reduced update by update
    if (draft.scenario.strategy.state_shards() > 1) {
      scatter_gradients(draft, out);
    } else {
      all_reduce_buckets(draft, out);
    }
  }
}

}  // namespace lockstep
