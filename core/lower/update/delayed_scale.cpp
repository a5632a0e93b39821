// The scales of the factors of FP8 products that follow from earlier steps (delayed scaling, as in
// NVIDIA's Transformer Engine). Their "gradient" is the largest magnitudes that the step has seen,
// and what is kept is those of the last steps.
#include "core/base/float8.hpp"
#include "core/lower/update/update_rule.hpp"

namespace lockstep {

const UpdateRule update_rules::kDelayedScale{
    .keeps = keeps_one_moment,
    .parts = [](UnitUpdate& u) -> std::vector<UpdatePart> {
      return {{Lead::None, [&u] {
                 const TrainingSpec& t = u.training();
                 const bool recent = t.fp8_amax_compute_algo == Fp8AmaxAlgo::MostRecent;
                 const double gradients = t.fp8 == Fp8Format::Hybrid ? kE5M2 : kE4M3;
                 u.move(u.kernel(KernelKind::DelayedScale, {u.elements(), u.unit().history},
                                 {static_cast<double>(t.fp8_margin), recent ? 1.0 : 0.0,
                                  double{kE4M3}, gradients}),
                        {"scale", "history"});
               }}};
    },
    .describe = [](const Scenario& scenario, const UnitLayout& /*layout*/,
                   Unit& unit) { unit.history = scenario.training.fp8_amax_history_len; },
};

}  // namespace lockstep
