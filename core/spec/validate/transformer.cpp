// The sizes of a transformer, and its rotary positions.
#include <utility>

#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_rope(const ModelSpec& m, Faults& faults) {
  const RopeScaling& rope = m.rope_scaling;
  faults.require(rope.high_freq_factor > rope.low_freq_factor, "model.rope_high_freq_factor",
                 "must be more than rope_low_freq_factor");
  if (m.head_dim % 2 != 0 && !m.is_latent()) {
    faults.add("model.head_dim",
               "rotary positions need an even head_dim, got " + std::to_string(m.head_dim));
  }
}

/// Sizes of latent attention. Without it, they mean nothing.
void validate_latent(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  const LatentSpec& latent = m.latent;
  if (!m.is_latent()) return;
  if (!m.is_rotary() || m.has_biases() || !m.is_text()) {
    return faults.refuse("model.kv_lora_rank",
                         "latent attention is built with rotary positions and without biases, as "
                         "architecture = \"llama\" has it: leave kv_lora_rank out");
  }
  bool positive = true;
  for (const auto& [key, value] : {std::pair("model.qk_nope_head_dim", latent.qk_nope_head_dim),
                                   std::pair("model.qk_rope_head_dim", latent.qk_rope_head_dim),
                                   std::pair("model.v_head_dim", latent.v_head_dim)}) {
    positive &= value >= 1;
    faults.require(value >= 1, key, "must be at least 1 with latent attention (kv_lora_rank)");
  }
  if (!positive) return;
  if (latent.qk_rope_head_dim % 2 != 0) {
    faults.add("model.qk_rope_head_dim", "rotary positions need an even qk_rope_head_dim, got " +
                                             std::to_string(latent.qk_rope_head_dim));
  }
  const std::string sum =
      std::to_string(latent.qk_nope_head_dim) + " + " + std::to_string(latent.qk_rope_head_dim);
  if (latent.v_head_dim > latent.qk_head_dim()) {
    faults.refuse(
        "model.v_head_dim",
        "v_head_dim=" + std::to_string(latent.v_head_dim) + " exceeds " + sum +
            ", the size of a query head, with which values are stored: give a smaller one");
  }
  if (m.head_dim != latent.qk_head_dim()) {
    faults.add("model.head_dim", "head_dim=" + std::to_string(m.head_dim) + " is not " + sum +
                                     ", qk_nope_head_dim + qk_rope_head_dim: leave it out");
  }
  if (m.kv_heads != m.heads) {
    faults.add("model.kv_heads", "kv_heads=" + std::to_string(m.kv_heads) +
                                     ": latent attention has keys and values of every one of "
                                     "heads=" +
                                     std::to_string(m.heads) + "; leave it out");
  }
  for (const auto& [key, given] :
       {std::pair("model.qkv_bias", m.qkv_bias), std::pair("model.qk_norm", m.qk_norm)}) {
    if (!given) continue;
    faults.refuse(
        key,
        "qk_norm and qkv_bias cannot be used with kv_lora_rank, because latent attention has its "
        "own norms and no biases: remove the key");
  }
}

}  // namespace

void validate_transformer(const Scenario& s, Faults& faults) {
  const ModelSpec& m = s.model;
  faults.require(m.layers >= 1, "model.layers", "must be at least 1");
  if (m.experts > 0) validate_experts(s, faults);
  if (m.heads % m.kv_heads != 0) {
    faults.add("model.kv_heads", "kv_heads=" + std::to_string(m.kv_heads) +
                                     " does not divide heads=" + std::to_string(m.heads));
  }
  validate_latent(s, faults);
  if (m.is_rotary()) validate_rope(m, faults);
  if (m.is_text() && m.learns_positions() && s.training.seq_len > m.max_seq_len) {
    faults.add("training.seq_len",
               "seq_len=" + std::to_string(s.training.seq_len) +
                   " exceeds the model's max_seq_len=" + std::to_string(m.max_seq_len));
  }
}

}  // namespace lockstep
