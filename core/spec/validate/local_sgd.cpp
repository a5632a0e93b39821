// Replicas that train apart (local SGD, DiLoCo): what their keys may be, and what they go with.
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_outer(const LocalSgdSpec& l, Faults& faults) {
  if (l.outer_nesterov && l.outer_momentum == 0) {
    faults.add(
        "local_sgd.outer_momentum",
        "outer_nesterov needs a momentum: with outer_momentum = 0, set outer_nesterov = false");
  }
}

}  // namespace

void validate_local_sgd(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  const LocalSgdSpec& l = p.local_sgd;
  if (!p.trains_apart()) return;
  faults.require(
      l.sync_steps >= 1, "local_sgd.sync_steps",
      "must be given, and at least 1: the steps from one synchronization of the replicas "
      "to the next");
  if (l.method == SemiSyncMethod::DiLoCo) {
    validate_outer(l, faults);
  } else {
    if (p.data_parallel_replicate_degree == 1) {
      faults.add(
          "local_sgd.method",
          "data_parallel_replicate_degree = 1: there is one replica, and nothing to average");
    }
  }
  if (s.model.architecture == Architecture::Synthetic) {
    faults.add("local_sgd.method", "the synthetic model has no parameters to synchronize");
  }
  if (s.training.scales_loss()) {
    faults.refuse(
        "local_sgd.method",
        "with gradients in float16 every replica would skip other steps, and need a loss scale "
        "of its own: train in bfloat16");
  }
  if (p.weight_versions() != WeightVersions::One) {
    faults.refuse(
        "local_sgd.method",
        std::string(rules_of(p.pipeline_parallel_schedule).name) +
            " never drains the pipeline, so no step ends with one version of the weights: take "
            "a schedule that updates them once a step");
  }
}

}  // namespace lockstep
