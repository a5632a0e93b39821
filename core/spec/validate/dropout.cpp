#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_dropout(const Scenario& s, Faults& faults) {
  for (const auto& [name, share] : {std::pair{"residual_dropout", s.training.residual_dropout},
                                    std::pair{"embedding_dropout", s.training.embedding_dropout},
                                    std::pair{"attention_dropout", s.training.attention_dropout}}) {
    if (share == 0) continue;
    const std::string key = "training." + std::string(name);
    if (s.model.architecture == Architecture::Synthetic || s.model.is_vision()) {
      faults.refuse(
          key, std::string(name) +
                   " drops elements of the rows of tokens, and this model has none: leave it out");
    } else if (s.strategy.vocabulary_parallel_pipeline) {
      faults.refuse(
          key, std::string(name) +
                   " is not built beside vocabulary_parallel_pipeline, whose divided embedding "
                   "and output layer would draw other random bits: leave one of the two out");
    }
  }
}

}  // namespace lockstep
