// ModelSpec: what to train. A plain value that knows nothing of clusters or strategies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/spec/block_parts.hpp"

namespace lockstep {

/// Of the first two and of Vit, the parts of a block are only the usual ones (kGpt2Parts,
/// kLlamaParts).
enum class Architecture {
  Gpt2,       // a transformer for text, with GPT-2's parts
  Llama,      // one with Llama's
  Resnet,     // residual convolutions with batch norm (He et al. 2015, v1.5 as in torchvision)
  Vit,        // patches of images, GPT-2's parts, attention to all patches
  Synthetic,  // no arithmetic: every virtual stage has given times ([costs])
};

/// How rotary positions are slowed down for long texts (core/base/rope.hpp).
struct RopeScaling {
  double factor = 1;  // 1: not at all
  /// Tokens of a text in the first training. With 0 all frequencies are divided by the factor
  /// (Hugging Face's rope_type "linear"), otherwise the low ones ("llama3"): those of which
  /// low_freq_factor periods or fewer fit into such a text; of high_freq_factor or more, none.
  std::int64_t original_length = 0;
  double low_freq_factor = 1, high_freq_factor = 4;
  double slowing() const { return factor == 1 ? 0 : factor; }
  double longest() const { return static_cast<double>(original_length) / low_freq_factor; }
  double shortest() const { return static_cast<double>(original_length) / high_freq_factor; }
  bool operator==(const RopeScaling&) const = default;
};

/// Latent attention, with the names of Hugging Face's configurations. A head's queries and keys
/// have qk_nope_head_dim elements without a position, then qk_rope_head_dim that are rotated by it;
/// the latter are the same in the keys of all heads.
struct LatentSpec {
  std::int64_t kv_lora_rank = 0;  // width of what keys and values are made of; 0: no such attention
  std::int64_t q_lora_rank = 0;   // of what queries are made of; 0: of the hidden state
  std::int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;  // at most that of queries and keys, beside which values are stored
  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  bool operator==(const LatentSpec&) const = default;
};

/// What makes probabilities of a router's logits.
enum class RouterScore {
  Softmax,  // over all experts (Mixtral)
  Sigmoid,  // of each by itself (DeepSeek-V3)
};

/// The linear layers of a block that adapters are for, by their names in Megatron.
inline constexpr std::array<std::string_view, 4> kLoraModules = {"linear_qkv", "linear_proj",
                                                                 "linear_fc1", "linear_fc2"};
/// Low-rank adapters (LoRA, Hu et al. 2021): beside a linear layer of weight W [out, in] lie A
/// [rank, in] and B [out, rank], and it computes W x + alpha / rank · B A x. Only these are
/// trained.
struct LoraSpec {
  int rank = 0;  // 0: no adapters
  double alpha = 16;
  double dropout = 0;  // the share of an adapter's inputs that are dropped in training
  /// Which linear layers have adapters, by their names in Megatron (kLoraModules). Empty: all of
  /// them, but for those of experts and those that project the latents of latent attention.
  std::vector<std::string> target_modules;
  double scale() const { return rank > 0 ? alpha / rank : 0; }
  bool operator==(const LoraSpec&) const = default;
};

struct ModelSpec {
  std::string name;
  Architecture architecture = Architecture::Gpt2;
  std::int64_t layers = 0;       // transformer blocks; or residual blocks, the sum of `blocks`
  std::int64_t hidden = 0;       // C
  std::int64_t heads = 0;        // query heads; head size D = head_dim
  std::int64_t kv_heads = 0;     // key/value heads; divides heads
  std::int64_t head_dim = 0;     // hidden / heads unless given; latent: qk_head_dim()
  std::int64_t ffn_hidden = 0;   // F
  std::int64_t vocab = 0;        // V
  std::int64_t max_seq_len = 0;  // rows of the position table, if positions are learned
  bool tied_embeddings = false;  // the output layer shares the token embedding
  // The parts of a block; those that are not given are the architecture's, see parts().
  std::optional<NormKind> norm;
  std::optional<Activation> activation;
  std::optional<Positions> positions;
  std::optional<bool> biases;
  NormPlace norm_place = NormPlace::Before;
  /// Attention and the feed-forward network both read the block's input: x + f(norm(x)) +
  /// g(norm(x)) (GPT-J, PaLM, arXiv:2204.02311).
  bool parallel_branches = false;
  bool shared_norm = false;  // … and one norm serves both (Falcon, Phi)
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;  // of rotary positions, as the next three
  RopeScaling rope_scaling;
  double rotary_fraction = 1;  // the first elements of a head that are rotated, of all
  bool qkv_bias = false;       // of queries, keys and values alone (Qwen2)
  bool qk_norm = false;        // RMS norms of every head's queries and keys (Qwen3)
  // Factors: of the sum of a token's rows (Gemma), of what a branch adds to the residual, of scores
  // (0: 1 / sqrt(head_dim)), and of logits (Granite).
  double embedding_multiplier = 1, residual_multiplier = 1, attention_multiplier = 0,
         logit_multiplier = 1;
  /// Scores and logits s become cap · tanh(s / cap) (Gemma 2, arXiv:2408.00118, section 2); 0: no
  /// cap.
  double attention_softcap = 0, logit_softcap = 0;
  /// A query sees so many tokens, of which it is the last, but for the last of every
  /// `global_period` blocks (0: in all of them); 0: all earlier ones (Beltagy et al. 2020,
  /// arXiv:2004.05150).
  std::int64_t sliding_window = 0, global_period = 0;
  double local_rope_theta = 0;  // of blocks with such a window (Gemma 3); 0: rope_theta, scaled
  /// Latent attention (DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, section 2.1): keys and
  /// values are made of one narrow row of a token.
  LatentSpec latent;
  /// Whether a token sees no later one. A model that sees all of a text is an encoder (BERT, Devlin
  /// et al. 2018), which learns to predict tokens that are masked (TrainingSpec::mask_prob). Of
  /// text; patches of images always see each other.
  bool causal = true;
  std::int64_t mask_token = -1;  // of an encoder: what stands in place of a masked token
  bool embedding_norm = false;   // a norm follows the embeddings' sum
  /// Rows of the table of segments (BERT's token types); 0: there is none. Every token is of the
  /// first segment, whose row is added to it.
  std::int64_t token_types = 0;
  /// Before the output layer come a linear layer, GELU and a norm, and its logits have a bias
  /// (BERT's head for masked tokens).
  bool head_transform = false;
  /// In Hugging Face's layout queries, keys and values are one tensor, and so are gate and up
  /// projection (Phi-3).
  bool fused_names = false;
  /// What a training of this model needs and is not built. Not empty: it can be simulated alone,
  /// with the times and the memory of the layers that the other members describe.
  std::string simulated_only;
  /// Patterns of the names of parameters that are not trained, with * for any text: "embed.*".
  std::vector<std::string> frozen;
  LoraSpec lora;  // with adapters nothing else is trained

  // Mixtures of experts, which take the place of feed-forward networks.
  std::int64_t experts = 0;            // of a block; 0 for a dense model
  std::int64_t experts_per_token = 2;  // how many experts a token chooses: the most probable
  std::int64_t expert_period = 1;      // the last of every so many blocks has experts
  std::int64_t dense_layers = 0;       // so many blocks at the begin have none
  std::int64_t dense_ffn_hidden = 0;   // F of blocks without experts beside such; 0: ffn_hidden
  RouterScore router_score = RouterScore::Softmax;
  double capacity_factor = 1.25;  // an expert's room over its even share; 0: no token is dropped
  /// Of experts that drop no token: the places of a rank for what the ranks that divide the experts
  /// send it, over the mean. 0: for all that they can send.
  double expert_rank_capacity_factor = 0;
  double router_aux_loss_coef = 0;  // weight of the loss that balances the experts
  /// By how much a step moves the bias of an expert, which is added to its probability where tokens
  /// choose, and nowhere else: up if it was chosen less often than the mean, down if more often
  /// (Wang et al. 2024, auxiliary-loss-free load balancing, algorithm 1). 0: no biases.
  double router_bias_update_rate = 0;
  /// What-if of the simulator: how many choices fall on the busiest of the ranks that divide the
  /// experts, over the mean of these ranks. Every rank is then that one. 0: as many as have room.
  double router_imbalance = 0;
  /// Width of a dense network beside the experts, which every token takes (DeepSeek, Qwen2-MoE); 0:
  /// none. With a gate its result is multiplied by the sigmoid of a linear layer with one output.
  std::int64_t shared_expert_hidden = 0;
  bool shared_expert_gate = false;

  // ResNet kind. A stage is a row of blocks with the same image size and width.
  std::vector<int> blocks;  // residual blocks of each stage
  /// A block is 1×1, 3×3 and 1×1, and four times as wide outside as inside; otherwise it is two
  /// 3×3.
  bool bottleneck = false;
  std::int64_t width = 64;        // channels of the first stage; each next stage has twice as many
  std::int64_t image_size = 224;  // height and width of an image, 3 channels; ViT kind, too
  std::int64_t classes = 1000;    // ViT kind, too
  /// The first convolution is 3×3 with stride 1 and without pooling, for images of 32×32; otherwise
  /// it is 7×7 with stride 2.
  bool small_stem = false;
  double norm_momentum = 0.1;  // of the running statistics of batch norm

  std::int64_t patch_size = 0;  // ViT kind: height and width of a patch, which is a token

  /// Whether that linear layer of the experts has adapters, one for each of them.
  bool adapts_experts(std::string_view module) const;
  /// Whether that linear layer of a block (one of kLoraModules) has an adapter.
  bool adapts(std::string_view module) const;
  /// Whether the parameter of that full name ("blocks.3.attn.wo") is trained.
  bool trains(std::string_view parameter) const;
  /// Whether some parameters are not.
  bool freezes() const { return lora.rank > 0 || !frozen.empty(); }
  /// Whether it is a transformer of text.
  bool is_text() const {
    return architecture == Architecture::Gpt2 || architecture == Architecture::Llama;
  }
  /// Whether samples are labelled images.
  bool is_vision() const { return has_batch_norm() || architecture == Architecture::Vit; }
  bool has_batch_norm() const { return architecture == Architecture::Resnet; }
  /// The parts of its blocks: those that are given, and otherwise the architecture's.
  BlockParts parts() const;
  bool is_gated() const { return lockstep::is_gated(parts().activation); }
  bool has_biases() const { return parts().biases; }
  bool is_rotary() const { return parts().positions == Positions::Rotary; }
  bool learns_positions() const { return parts().positions == Positions::Learned; }
  /// Elements of a head that are rotated.
  std::int64_t rotary_dim() const;
  /// The window of that block; 0 if its queries see all earlier tokens.
  std::int64_t window_of(std::int64_t block) const {
    const bool global = global_period > 0 && (block + 1) % global_period == 0;
    return global ? 0 : sliding_window;
  }
  /// Whether a token, or patch, sees no later one.
  bool is_causal() const { return causal && !is_vision(); }
  /// Whether it has nothing that encoders have and decoders have not.
  bool is_decoder() const {
    return causal && norm_place != NormPlace::BehindSum && !embedding_norm && token_types == 0 &&
           !head_transform;
  }
  /// Whether it is trained to predict masked tokens of a text.
  bool is_encoder() const { return !causal && !is_vision(); }
  /// Whether a norm stands before the output layer: where the blocks do not end with one, and
  /// behind a transform.
  bool norms_head() const { return head_transform || norm_place != NormPlace::BehindSum; }
  bool has_experts(std::int64_t block) const {
    return experts > 0 && block >= dense_layers && (block + 1) % expert_period == 0;
  }
  /// Width of the feed-forward network of blocks without experts.
  std::int64_t dense_width() const {
    return experts > 0 && dense_ffn_hidden > 0 ? dense_ffn_hidden : ffn_hidden;
  }
  bool is_latent() const { return latent.kv_lora_rank > 0; }
  /// Columns of what attention gives to its output projection.
  std::int64_t attention_width() const {
    return heads * (is_latent() ? latent.v_head_dim : head_dim);
  }
  /// For how many of the `tokens` of a microbatch on a rank an expert has room: capacity_factor ×
  /// tokens × experts_per_token / experts, rounded up (Fedus et al. 2021, equation 3). `ranks`
  /// divide the experts; if router_imbalance is given, the room is no larger than what the busiest
  /// of them needs. (One rank with all experts always gets the mean.) Requires a capacity_factor.
  std::int64_t expert_capacity(std::int64_t tokens, int ranks) const;
  /// Whether experts compute every token that chooses them, however many these are.
  bool is_dropless() const { return experts > 0 && capacity_factor == 0; }
  /// Rows that the experts of a rank compute, each of them a token for one expert.
  struct ExpertRows {
    std::int64_t expected = 0;  // the mean; or those of the busiest rank, if router_imbalance says
    std::int64_t places = 0;    // for which there is room
  };
  /// Those of a dropless model, where each of `ranks` that divide the experts has `tokens` of a
  /// microbatch. One rank gets exactly tokens × experts_per_token rows, and one of several at most
  /// ranks × tokens × min(experts_per_token, experts / ranks), because a token's choices are
  /// different experts. With router_imbalance the places are those that are expected, which
  /// frameworks allocate as rows come.
  ExpertRows expert_rows(std::int64_t tokens, int ranks) const;
  /// Why the model can only be simulated, as the end of a sentence; empty if it can be trained.
  std::string why_only_simulated() const;
  /// Elements of one image.
  std::int64_t image_elements() const { return image_size * image_size * 3; }
  /// The patches of one image.
  std::int64_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
  bool operator==(const ModelSpec&) const = default;
};

/// The times of the synthetic model, which are given instead of computed by a cost model: seconds
/// per virtual stage and microbatch. Each list has one value for all stages, or one per stage.
struct CostsSpec {
  std::vector<double> forward;
  std::vector<double> backward_input;
  std::vector<double> backward_weight;
  double p2p = 0;  // latency of one message between two stages on different ranks
  /// A forward and a backward pass that run as one take the sum of their times, times this.
  double pair_factor = 1;
  bool operator==(const CostsSpec&) const = default;
};

}  // namespace lockstep
