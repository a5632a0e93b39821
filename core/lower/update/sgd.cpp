// SGD with momentum, as torch.optim.SGD.
#include "core/lower/update/update_rule.hpp"

namespace lockstep {

const UpdateRule update_rules::kSgd{
    .keeps = keeps_one_moment,
    .parts = [](UnitUpdate& u) -> std::vector<UpdatePart> {
      return {{Lead::None, [&u] {
                 u.move(u.kernel(KernelKind::Sgd, {u.elements()},
                                 {u.optimizer().momentum, u.weight_decay()}),
                        {"w", "m"});
               }}};
    },
};

}  // namespace lockstep
