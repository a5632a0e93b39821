// Lion (Chen et al. 2023): the weights step by the sign of a mix of momentum and gradient, so that
// one state is kept where AdamW keeps two.
#include "core/lower/update/update_rule.hpp"

namespace lockstep {

const UpdateRule update_rules::kLion{
    .keeps = keeps_one_moment,
    .parts = [](UnitUpdate& u) -> std::vector<UpdatePart> {
      return {{Lead::None, [&u] {
                 const OptimizerSpec& o = u.optimizer();
                 u.move(u.kernel(KernelKind::Lion, {u.elements()},
                                 {o.beta1, o.beta2, u.weight_decay()}),
                        {"w", "m"});
               }}};
    },
};

}  // namespace lockstep
