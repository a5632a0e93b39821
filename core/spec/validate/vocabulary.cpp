#include <algorithm>

#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_vocabulary(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  if (!p.vocabulary_parallel_pipeline) return;
  const std::string key = "parallelism.vocabulary_parallel_pipeline";
  if (s.model.architecture == Architecture::Synthetic || s.model.is_vision()) {
    return faults.add(key, "model '" + s.model.name + "' has no vocabulary to divide");
  }
  if (p.pipeline_parallel_degree == 1) {
    return faults.add(key,
                      "the ranks of a pipeline divide the vocabulary, and "
                      "pipeline_parallel_degree=1 makes none");
  }
  const ScheduleRules& rules = rules_of(p.pipeline_parallel_schedule);
  if (!p.pipeline_parallel_schedule_csv.empty()) {
    faults.refuse(key,
                  "a schedule from a file has no passes of the vocabulary: name one with "
                  "pipeline_parallel_schedule");
  } else if (!rules.takes_vocabulary) {
    std::string others;
    for (const ScheduleRules& other : kSchedules) {
      if (other.takes_vocabulary) others += (others.empty() ? "" : ", ") + std::string(other.name);
    }
    faults.refuse(
        key,
        "the passes of the vocabulary are put between whole backward passes of one copy of "
        "the model that is updated once a step, which " +
            std::string(rules.name) + " does not have: give one of " + others);
  }
  if (p.pipeline_parallel_p2p == P2pPosting::Fused ||
      p.pipeline_parallel_p2p == P2pPosting::Blocking) {
    faults.refuse(
        "parallelism.pipeline_parallel_p2p",
        "with vocabulary_parallel_pipeline, ranks that wait while they send reach the "
        "collectives of the vocabulary in different orders and deadlock: give \"async\" or "
        "\"preposted\"");
  }
  const std::vector<int>& layout = p.pipeline_parallel_layers_per_stage;
  if (!layout.empty() && *std::min_element(layout.begin(), layout.end()) == 0) {
    faults.add("parallelism.pipeline_parallel_layers_per_stage",
               "with vocabulary_parallel_pipeline all ranks share embedding and output layer, so "
               "that a stage without blocks would be empty");
  } else if (layout.empty() && s.model.layers >= 1 && p.num_stages() > s.model.layers) {
    faults.add("parallelism.pipeline_parallel_degree",
               std::to_string(p.num_stages()) + " stages need as many blocks, because all ranks " +
                   "share embedding and output layer; the model has " +
                   std::to_string(s.model.layers));
  }
}

}  // namespace lockstep
