// The biases that balance a router's choices: they rise for experts with too little load (Wang et
// al. 2024). Their "gradient" is the load that forward has measured.
#include "core/lower/update/update_rule.hpp"

namespace lockstep {

const UpdateRule update_rules::kRouterBias{
    .keeps = keeps_one_moment,
    .parts = [](UnitUpdate& u) -> std::vector<UpdatePart> {
      return {{Lead::None, [&u] {
                 const double rate = u.draft.scenario.model.router_bias_update_rate;
                 u.move(u.kernel(KernelKind::RouterBias, {u.elements()}, {rate}), {"b", "load"});
               }}};
    },
};

}  // namespace lockstep
