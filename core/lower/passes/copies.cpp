// copies: sums the gradients of units that several pipeline ranks hold, and takes the largest of
// what is measured. These are the tied embedding of the first and last stage, and all units if
// there are copies of the model.
#include "core/lower/draft/data_axes.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {

void copies(Draft& draft) {
  if (draft.scenario.updates_per_step() > 1) return;  // PipeDream keeps no copies equal
  // Pipeline ranks that divide the vocabulary have parts of it, and compute the same gradients of
  // what they hold whole.
  if (draft.scenario.strategy.vocabulary_stages() > 1) return;
  for (std::size_t layout = 0; layout < draft.model.units.size(); ++layout) {
    if (draft.model.units[layout].frozen) continue;
    std::vector<int> holders;  // coordinates along "pp"
    for (std::size_t r = 0; r < draft.roles.size(); ++r) {
      if (unit_of(draft.roles[r], layout) != kNever) holders.push_back(static_cast<int>(r));
    }
    if (holders.size() < 2) continue;
    const GroupId group = pipeline_group(draft, holders);
    for (const int r : holders) {
      DraftRole& out = draft.roles[r];
      const std::size_t u = unit_of(out, layout);
      Op op = collective(OpKind::AllReduce, Stream::Reduce, group, layer_of(out, u));
      op.largest = takes_largest(draft.model.units[layout]);
      add_op(out.role, op, {out.units[u].reduced});
    }
  }
}

}  // namespace lockstep
