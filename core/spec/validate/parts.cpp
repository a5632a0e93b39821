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
  if (m.rotary_fraction != 1 && m.is_latent()) {
    return faults.add("model.rotary_fraction",
                      "latent attention says with qk_rope_head_dim how many elements are rotated: "
                      "leave rotary_fraction out");
  }
  if (m.rotary_fraction != 1 && m.rotary_dim() < 2) {
    faults.add("model.rotary_fraction",
               "rotary_fraction is the share of a head's elements that are rotated, two of " +
                   std::to_string(m.head_dim) + " at least");
  }
  faults.require(m.local_rope_theta == 0 || m.sliding_window > 0, "model.local_rope_theta",
                 "is of rotary positions of blocks with a window: give model.sliding_window, too");
}

void validate_window(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
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
  if (!m.is_text()) return;
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
