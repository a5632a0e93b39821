// ModelSpec: what to train. A plain value that knows nothing of clusters or strategies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class Architecture {
  Gpt2,       // LayerNorm, GELU (tanh), learned positions, biases
  Llama,      // RMSNorm, SwiGLU, rotary positions, grouped-query attention, no biases
  Synthetic,  // no arithmetic: every virtual stage has given times ([costs])
};

struct ModelSpec {
  std::string name;
  Architecture architecture = Architecture::Gpt2;
  std::int64_t layers = 0;       // transformer blocks
  std::int64_t hidden = 0;       // C
  std::int64_t heads = 0;        // query heads; head size D = head_dim
  std::int64_t kv_heads = 0;     // key/value heads; divides heads
  std::int64_t head_dim = 0;     // hidden / heads unless given
  std::int64_t ffn_hidden = 0;   // F
  std::int64_t vocab = 0;        // V
  std::int64_t max_seq_len = 0;  // rows of the position table (GPT-2 kind)
  bool tied_embeddings = false;  // output layer shares the token embedding
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;  // Llama kind
  bool operator==(const ModelSpec&) const = default;
};

/// Given times instead of a cost model, for the synthetic model: seconds per virtual stage and
/// microbatch. One value for all stages, or one per stage.
struct CostsSpec {
  std::vector<double> forward;
  std::vector<double> backward_input;
  std::vector<double> backward_weight;
  double p2p = 0;  // latency of one stage-boundary transfer between two ranks
  bool operator==(const CostsSpec&) const = default;
};

}  // namespace lockstep
