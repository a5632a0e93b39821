#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_dropout(const Scenario& s, Faults& faults) {
  for (const auto& [name, share] : {std::pair{"residual_dropout", s.training.residual_dropout},
                                    std::pair{"embedding_dropout", s.training.embedding_dropout},
                                    std::pair{"attention_dropout", s.training.attention_dropout}}) {
    if (share == 0) continue;
    const std::string key = "training." + std::string(name);
    if (!(share > 0 && share < 1)) {
      faults.add(key, std::string(name) +
                          " is the share of elements that are dropped: 0 or more, "
                          "and less than 1");
    } else if (s.model.architecture == Architecture::Synthetic || s.model.is_vision()) {
      faults.add(key, std::string(name) + " is of the rows of tokens, which this model has not");
    } else if (s.strategy.vocabulary_parallel_pipeline) {
      faults.add(key,
                 std::string(name) +
                     " is not built beside vocabulary_parallel_pipeline, where the ends of the "
                     "model are layers of their own, which other random bits would belong to",
                 ErrorKind::Unsupported);
    }
  }
}

}  // namespace lockstep
