#include "core/session/subject.hpp"

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

Subject subject_of(const Scenario& scenario) {
  ValidationSpec validation = scenario.validation;
  validation.dataset = scenario.validation_path();
  return {[&scenario] { return lower(scenario); },
          scenario.cluster,
          scenario.what_if,
          scenario.dataset_path(),
          scenario.nvme_path(),
          scenario.checkpoint,
          validation,
          scenario.training.on_nonfinite,
          {scenario.training.skip_loss_zscore, scenario.training.skip_grad_zscore},
          print_scenario(scenario),
          scenario.model.why_only_simulated()};
}

}  // namespace lockstep
