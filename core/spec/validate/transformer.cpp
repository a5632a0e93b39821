// The sizes of a transformer, and its rotary positions.
#include <utility>

#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kMostLayers = 1 << 14;

void validate_rope(const ModelSpec& m, Faults& faults) {
  const RopeScaling& rope = m.rope_scaling;
  faults.require(m.rope_theta > 0, "model.rope_theta", "must be positive");
  faults.require(rope.factor >= 1, "model.rope_factor", "must be at least 1");
  faults.require(rope.original_length >= 0, "model.rope_original_length", "must not be negative");
  faults.require(rope.low_freq_factor > 0, "model.rope_low_freq_factor", "must be positive");
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
  faults.require(latent.kv_lora_rank >= 0, "model.kv_lora_rank",
                 "must not be negative (0: no latent attention)");
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"model.qk_nope_head_dim", latent.qk_nope_head_dim},
      {"model.qk_rope_head_dim", latent.qk_rope_head_dim},
      {"model.v_head_dim", latent.v_head_dim}};
  if (latent.kv_lora_rank <= 0) {
    for (const auto& [key, value] : sizes) {
      faults.require(value == 0, key, "is of latent attention: give model.kv_lora_rank, too");
    }
    return faults.require(latent.q_lora_rank == 0, "model.q_lora_rank",
                          "is of latent attention: give model.kv_lora_rank, too");
  }
  faults.positive("model.kv_lora_rank", latent.kv_lora_rank);
  faults.require(latent.q_lora_rank >= 0, "model.q_lora_rank",
                 "must not be negative (0: queries are made of the hidden state)");
  if (!m.is_rotary() || m.has_biases() || !m.is_text()) {
    return faults.refuse("model.kv_lora_rank",
                         "latent attention is built with rotary positions and without biases, as "
                         "architecture = \"llama\" has it: leave kv_lora_rank out");
  }
  bool positive = true;
  for (const auto& [key, value] : sizes) positive &= faults.positive(key, value);
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
  bool sizes = faults.positive("model.layers", m.layers, kMostLayers);
  sizes &= faults.positive("model.hidden", m.hidden);
  sizes &= faults.positive("model.heads", m.heads);
  sizes &= faults.positive("model.kv_heads", m.kv_heads);
  sizes &= faults.positive("model.head_dim", m.head_dim);
  sizes &= faults.positive("model.ffn_hidden", m.ffn_hidden);
  if (!m.is_vision()) sizes &= faults.positive("model.vocab", m.vocab);
  faults.require(m.max_seq_len >= 0, "model.max_seq_len", "must not be negative");
  faults.require(m.norm_eps >= 0, "model.norm_eps", "must not be negative");
  if (!sizes) return;
  if (!m.is_vision()) validate_experts(s, faults);
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
