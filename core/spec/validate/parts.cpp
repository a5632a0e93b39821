// The parts of a transformer's blocks: which of them can stand beside each other.
#include <utility>

#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_norms(const ModelSpec& m, Faults& faults) {
  if (m.parallel_branches && m.norm_place != NormPlace::Before) {
    faults.refuse("model.norm_place",
                  "norm_place other than \"before\" is not built beside parallel_branches, whose "
                  "branches both read the block's input: leave one of them out");
  }
  faults.require(!m.shared_norm || m.parallel_branches, "model.shared_norm",
                 "is of branches that read the same input: give model.parallel_branches=true, too");
}

void validate_positions(const ModelSpec& m, Faults& faults) {
  const bool whole = m.rotary_fraction == 1;
  if (!whole && (!m.is_rotary() || m.is_latent())) {
    return faults.add("model.rotary_fraction",
                      "rotary_fraction is of rotary positions without latent attention, which says "
                      "qk_rope_head_dim: leave it out");
  }
  if (!whole && (!(m.rotary_fraction > 0) || m.rotary_fraction > 1 || m.rotary_dim() < 2)) {
    faults.add("model.rotary_fraction",
               "rotary_fraction is the share of a head's elements that are rotated, two of " +
                   std::to_string(m.head_dim) + " at least and all of them at most");
  }
  faults.require(m.local_rope_theta >= 0, "model.local_rope_theta", "must not be negative");
  faults.require(m.local_rope_theta == 0 || (m.sliding_window > 0 && m.is_rotary()),
                 "model.local_rope_theta",
                 "is of rotary positions of blocks with a window: give model.sliding_window, too");
}

void validate_window(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  faults.require(m.sliding_window >= 0, "model.sliding_window",
                 "must not be negative (0: a token sees all earlier ones)");
  faults.require(m.global_period >= 0, "model.global_period",
                 "must not be negative (0: all blocks have the window)");
  faults.require(m.global_period == 0 || m.sliding_window > 0, "model.global_period",
                 "says which blocks have no window: give model.sliding_window, too");
  if (m.sliding_window > 0 && !m.is_causal()) {
    faults.refuse("model.sliding_window",
                  "sliding_window is built for models in which a token sees no later one: leave it "
                  "out");
  }
  if (m.sliding_window > 0 && s.training.reset_attention_mask) {
    faults.refuse("training.reset_attention_mask",
                  "reset_attention_mask is not built beside model.sliding_window: leave one of "
                  "them out");
  }
}

void validate_factors(const ModelSpec& m, Faults& faults) {
  for (const auto& [key, factor] : {std::pair{"model.embedding_multiplier", m.embedding_multiplier},
                                    std::pair{"model.residual_multiplier", m.residual_multiplier},
                                    std::pair{"model.logit_multiplier", m.logit_multiplier}}) {
    faults.require(factor > 0, key, "is a factor, which must be positive");
  }
  for (const auto& [key, value] : {std::pair{"model.attention_multiplier", m.attention_multiplier},
                                   std::pair{"model.attention_softcap", m.attention_softcap},
                                   std::pair{"model.logit_softcap", m.logit_softcap}}) {
    faults.require(value >= 0, key, "must not be negative (0: as without it)");
  }
  if (m.embedding_multiplier != 1 && m.learns_positions()) {
    faults.refuse("model.embedding_multiplier",
                  "embedding_multiplier is not built beside learned positions, which it would "
                  "multiply, too: leave it out");
  }
  if (m.logit_multiplier != 1 && m.head_transform) {
    faults.refuse("model.logit_multiplier",
                  "logit_multiplier is not built beside head_transform, whose logits have a bias: "
                  "leave it out");
  }
}

}  // namespace

void validate_parts(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  if (!m.is_text()) {
    const ModelSpec usual;
    const std::pair<const char*, bool> given[] = {
        {"model.norm", m.norm.has_value()},
        {"model.norm_place", m.norm_place != usual.norm_place},
        {"model.activation", m.activation.has_value()},
        {"model.positions", m.positions.has_value()},
        {"model.biases", m.biases.has_value()},
        {"model.parallel_branches", m.parallel_branches},
        {"model.sliding_window", m.sliding_window != 0},
        {"model.attention_multiplier", m.attention_multiplier != 0},
        {"model.attention_softcap", m.attention_softcap != 0},
        {"model.embedding_multiplier", m.embedding_multiplier != 1},
        {"model.residual_multiplier", m.residual_multiplier != 1},
        {"model.logit_multiplier", m.logit_multiplier != 1},
        {"model.logit_softcap", m.logit_softcap != 0}};
    for (const auto& [key, is_given] : given) {
      faults.require(!is_given, key, "is of transformers of text (gpt2, llama): leave it out");
    }
    return;
  }
  validate_norms(m, faults);
  validate_positions(m, faults);
  validate_window(s, faults);
  validate_factors(m, faults);
  const Activation activation = m.parts().activation;
  const bool known = activation == Activation::Gelu || activation == Activation::Swiglu;
  if (m.experts > 0 && !(known && m.has_biases() != m.is_gated())) {
    faults.refuse("model.activation",
                  "experts are built with activation = \"gelu\" and biases, or \"swiglu\" and "
                  "none: give one of these pairs");
  }
}

}  // namespace lockstep
