// Models of text that are not causal, their objective, and what they have beside a decoder.
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_masks(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const TrainingSpec& t = s.training;
  if (m.causal) {
    faults.require(m.mask_token == -1, "model.mask_token",
                   "is of models that predict masked tokens: give model.causal=false, too");
    return faults.require(t.mask_prob == TrainingSpec{}.mask_prob, "training.mask_prob",
                          "is of models that predict masked tokens: give model.causal=false, too");
  }
  if (m.mask_token < 0 || m.mask_token >= m.vocab) {
    faults.add("model.mask_token",
               "a model that is not causal would see the token that it has to predict, so it "
               "learns to predict masked ones: mask_token, which stands in their place, must be "
               "given in 0 … " +
                   std::to_string(m.vocab - 1) + ", the tokens of the model; it is " +
                   (m.mask_token == -1 ? "missing" : std::to_string(m.mask_token)));
  }
  faults.require(t.mask_prob > 0 && t.mask_prob <= 1, "training.mask_prob",
                 "is a share of tokens, more than 0 and at most 1");
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
  struct Given {
    const char* key;
    bool given;
    bool at_an_end;  // of the model
  };
  const Given keys[] = {
      {"causal", !m.causal, false},
      {"mask_token", m.mask_token != -1, false},
      {"norm_place", m.norm_place == NormPlace::BehindSum, true},
      {"embedding_norm", m.embedding_norm, true},
      {"token_types", m.token_types != 0, true},
      {"head_transform", m.head_transform, true},
  };
  const bool text = m.is_text();
  for (const Given& key : keys) {
    if (!key.given) continue;
    if (!text) {
      faults.add("model." + std::string(key.key),
                 std::string(key.key) + " is of transformers of text (gpt2, llama)");
    } else if (key.at_an_end && s.strategy.vocabulary_parallel_pipeline) {
      faults.refuse("parallelism.vocabulary_parallel_pipeline",
                    std::string(key.key) +
                        " is not built beside vocabulary_parallel_pipeline, which divides the "
                        "embedding and output layer of GPT-2 and Llama: leave the latter out");
    }
  }
  if (!text) return;
  faults.require(m.token_types >= 0, "model.token_types", "must not be negative (0: no segments)");
  validate_masks(s, faults);
}

}  // namespace lockstep
