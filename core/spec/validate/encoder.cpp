// Models of text that are not causal, their objective, and what they have beside a decoder.
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_masks(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const TrainingSpec& t = s.training;
  if (m.causal) return;
  if (m.mask_token < 0 || m.mask_token >= m.vocab) {
    faults.add("model.mask_token",
               "a model that is not causal would see the token that it has to predict, so it "
               "learns to predict masked ones: mask_token, which stands in their place, must be "
               "given in 0 … " +
                   std::to_string(m.vocab - 1) + ", the tokens of the model; it is " +
                   (m.mask_token == -1 ? "missing" : std::to_string(m.mask_token)));
  }
  if (t.eod_mask_loss) {
    faults.refuse(
        "training.eod_mask_loss",
        "eod_mask_loss leaves out the token behind the end of a document as a next token; "
        "this model predicts masked tokens, and no end is masked: leave it out");
  }
  if (t.has_documents() && t.eod_token == m.mask_token) {
    faults.add("training.eod_token", "eod_token=" + std::to_string(t.eod_token) +
                                         " is mask_token, too, which would end documents");
  }
}

}  // namespace

void validate_encoder(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (!m.is_text()) return;
  const std::pair<const char*, bool> at_an_end[] = {
      {"norm_place", m.norm_place == NormPlace::BehindSum},
      {"embedding_norm", m.embedding_norm},
      {"token_types", m.token_types != 0},
      {"head_transform", m.head_transform},
  };
  for (const auto& [key, given] : at_an_end) {
    if (!given || !s.strategy.vocabulary_parallel_pipeline) continue;
    faults.refuse("parallelism.vocabulary_parallel_pipeline",
                  std::string(key) +
                      " is not built beside vocabulary_parallel_pipeline, which divides the "
                      "embedding and output layer of GPT-2 and Llama: leave the latter out");
  }
  validate_masks(s, faults);
}

}  // namespace lockstep
