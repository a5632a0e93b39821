// The sizes of a transformer, and its rotary positions.
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
  if (m.head_dim % 2 != 0) {
    faults.add("model.head_dim",
               "rotary positions need an even head_dim, got " + std::to_string(m.head_dim));
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
  if (m.architecture == Architecture::Llama) validate_rope(m, faults);
  if (m.is_gpt2_kind() && m.qk_norm) {
    faults.add("model.qk_norm", "norms of queries and keys are of the llama architecture");
  }
  if (m.architecture == Architecture::Gpt2 && s.training.seq_len > m.max_seq_len) {
    faults.add("training.seq_len",
               "seq_len=" + std::to_string(s.training.seq_len) +
                   " exceeds the model's max_seq_len=" + std::to_string(m.max_seq_len));
  }
}

}  // namespace lockstep
