#include "core/spec/validate/faults.hpp"

namespace lockstep {

void validate_documents(const Scenario& s, Faults& faults) {
  const TrainingSpec& t = s.training;
  const std::string eod = "training.eod_token", mean = "training.mean_document_length";
  const std::string mask = "training.reset_attention_mask", reset = "training.reset_position_ids";
  if (!t.has_documents() && !t.reset_position_ids) return;
  if (s.model.architecture == Architecture::Synthetic || s.model.is_vision()) {
    return faults.add(t.reset_attention_mask ? mask
                      : t.eod_mask_loss      ? "training.eod_mask_loss"
                                             : reset,
                      "only sequences of tokens hold documents");
  }
  if (t.eod_token < 0 || t.eod_token >= s.model.vocab) {
    faults.add(eod, "eod_token, the token that ends a document, must be given in 0 … " +
                        std::to_string(s.model.vocab - 1) + ", the tokens of the model; it is " +
                        (t.eod_token == -1 ? "missing" : std::to_string(t.eod_token)));
  } else if (s.model.vocab < 2) {
    faults.add(eod, "a vocabulary of one token has none beside the end of a document");
  }
  if (t.mean_document_length == 0) {
    faults.add(mean, "mean_document_length, after which attention is charged, must be given");
  }
  if (t.reset_position_ids && !t.reset_attention_mask) {
    faults.add(reset,
               "reset_position_ids without reset_attention_mask: tokens of several documents "
               "would attend to each other at the same positions");
  }
  if (t.reset_position_ids && s.model.learns_positions() && s.strategy.enable_sequence_parallel &&
      s.strategy.tensor_parallel_degree > 1) {
    faults.refuse(
        reset,
        "reset_position_ids: with sequence parallelism a rank adds learned positions to its "
        "share of the rows only, whose documents it does not know: give "
        "enable_sequence_parallel=false");
  }
}

}  // namespace lockstep
