#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_versions(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  const std::string every_key = "parallelism.pipeline_parallel_update_every";
  if (p.weight_versions() == WeightVersions::One) return;
  const std::string name(rules_of(p.pipeline_parallel_schedule).name);
  const int every = s.microbatches_per_update();
  if (s.num_microbatches() % every != 0) {
    faults.add(every_key, name + " updates the weights every " + std::to_string(every) +
                              " microbatches, which does not divide the " +
                              std::to_string(s.num_microbatches()) + " of a step");
  } else if (p.weight_versions() == WeightVersions::Double && every < p.pipeline_parallel_degree) {
    faults.add(every_key, name + " on " + std::to_string(p.pipeline_parallel_degree) +
                              " ranks needs as many microbatches from update to update, got " +
                              std::to_string(every) + ": with fewer, two versions are not enough");
  }
  if (s.model.architecture == Architecture::Synthetic) return;
  if (s.training.max_norm > 0) {
    faults.refuse(
        "training.max_norm",
        name +
            " updates each stage by itself, so the global norm that max_norm clips is not "
            "known: set max_norm = 0");
  }
  if (p.state_shards() > 1) {
    const bool context = p.data_parallel_shard_degree == 1;
    faults.refuse(context ? "parallelism.zero_stage" : "parallelism.data_parallel_shard_degree",
                  name +
                      " keeps whole versions of the weights, and shards are not whole: replicate "
                      "its stages (data_parallel_replicate_degree), and with "
                      "context_parallel_degree give zero_stage = 0");
  }
  if (p.zero_quantized_weights) {
    faults.refuse("parallelism.zero_quantized_weights",
                  name +
                      " keeps the versions of the weights that its updates made, and layers would "
                      "read quantized ones: give zero_quantized_weights = false");
  }
  if (s.model.has_batch_norm()) {
    faults.refuse(
        "parallelism.pipeline_parallel_schedule",
        name +
            " with batch norm is not built, because microbatches in flight would mix its running "
            "statistics: take a schedule that updates the weights once a step");
  }
  if (p.offload != Offload::None) {
    faults.refuse("parallelism.offload",
                  name + " with offload is not built: give offload = \"none\"");
  }
  if (s.model.tied_embeddings && p.pipeline_parallel_degree > 1) {
    faults.refuse("model.tied_embeddings",
                  name +
                      " updates first and last stage at different times, so they cannot share the "
                      "embedding: set tied_embeddings = false");
  }
}

}  // namespace lockstep
