// AdamW (Loshchilov and Hutter 2019) and Adam (Kingma and Ba 2015): two moments of the gradient, of
// which AdamW's may be quantized.
#include "core/lower/update/update_rule.hpp"

namespace lockstep {

const UpdateRule update_rules::kAdamW{
    .keeps = [](const OptimizerSpec& /*optimizer*/) -> std::vector<StateKind> {
      return {StateKind::Moment1, StateKind::Moment2};
    },
    .parts = [](UnitUpdate& u) -> std::vector<UpdatePart> {
      return {{Lead::None, [&u] {
                 const OptimizerSpec& o = u.optimizer();
                 const std::int64_t block = u.unit().state_block;
                 const KernelKind kind = o.name == OptimizerKind::Adam ? KernelKind::Adam
                                         : block > 0                   ? KernelKind::AdamW8bit
                                                                       : KernelKind::AdamW;
                 u.move(u.kernel(kind, {u.elements(), block},
                                 {o.beta1, o.beta2, o.eps, u.weight_decay()}),
                        {"w", "m", "v"});
               }}};
    },
    .describe =
        [](const Scenario& scenario, const UnitLayout& layout, Unit& unit) {
          if (scenario.optimizer.state_dtype == StateDType::U8) {
            unit.state_block = layout.state_block;
          }
        },
};

}  // namespace lockstep
