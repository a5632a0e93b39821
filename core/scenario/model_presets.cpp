#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/scenario/presets.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

ModelSpec gpt2(const char* name, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
               std::int64_t max_seq_len, std::int64_t vocab = 50257) {
  ModelSpec m;
  m.name = name;
  m.architecture = Architecture::Gpt2;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden = 4 * hidden;
  m.vocab = vocab;
  m.max_seq_len = max_seq_len;
  m.tied_embeddings = true;
  return m;
}

/// An encoder (Devlin et al. 2018): a GPT-2 that sees all of a text, whose norms follow the sums.
ModelSpec bert(const char* name, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
               std::int64_t max_seq_len, std::int64_t vocab, std::int64_t mask_token) {
  ModelSpec m = gpt2(name, layers, hidden, heads, max_seq_len, vocab);
  m.causal = false;
  m.mask_token = mask_token;
  m.norm_place = NormPlace::BehindSum;
  m.embedding_norm = m.head_transform = true;
  m.token_types = 2;
  m.norm_eps = 1e-12;
  return m;
}

/// The same without segments (Liu et al. 2019), whose table has one row; and another vocabulary.
ModelSpec roberta(const char* name, std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelSpec m = bert(name, layers, hidden, heads, 512, 50265, 50264);
  m.token_types = 1;
  m.norm_eps = 1e-5;
  return m;
}

struct LlamaShape {
  std::int64_t layers, hidden, heads, kv_heads, ffn_hidden, vocab, max_seq_len;
  double rope_theta = 10000.0;
};

ModelSpec llama(const char* name, const LlamaShape& shape) {
  ModelSpec m;
  m.name = name;
  m.architecture = Architecture::Llama;
  m.layers = shape.layers;
  m.hidden = shape.hidden;
  m.heads = shape.heads;
  m.kv_heads = shape.kv_heads;
  m.head_dim = shape.hidden / shape.heads;
  m.ffn_hidden = shape.ffn_hidden;
  m.vocab = shape.vocab;
  m.max_seq_len = shape.max_seq_len;
  m.rope_theta = shape.rope_theta;
  return m;
}

/// Gemma 2 (Gemma Team 2024, arXiv:2408.00118, table 1). Scores are divided by the root of `scale`.
ModelSpec gemma2(const char* name, const LlamaShape& shape, std::int64_t head_dim,
                 std::int64_t window = 4096, std::int64_t scale = 0) {
  ModelSpec m = llama(name, shape);
  m.head_dim = head_dim;
  m.tied_embeddings = true;
  m.norm_eps = 1e-6;
  m.norm_place = NormPlace::Around;
  m.activation = Activation::Geglu;
  m.embedding_multiplier = std::sqrt(static_cast<double>(m.hidden));
  if (scale > 0) m.attention_multiplier = 1 / std::sqrt(static_cast<double>(scale));
  m.attention_softcap = 50;
  m.logit_softcap = 30;
  m.sliding_window = window;
  m.global_period = 2;
  return m;
}

/// A model of Llama's architecture with a mixture of experts in every block.
ModelSpec mixtral(const char* name, const LlamaShape& shape, std::int64_t experts) {
  ModelSpec m = llama(name, shape);
  m.experts = experts;
  m.experts_per_token = 2;
  return m;
}

struct DeepSeekShape {
  std::int64_t layers, hidden, heads, q_lora_rank, dense_ffn_hidden, dense_layers;
  std::int64_t experts, chosen, expert_hidden, shared;  // the last: experts that all tokens take
  std::int64_t vocab = 102400;
  RouterScore score = RouterScore::Softmax;
  const char* lacking = "";
};

/// A model with latent attention and a mixture of experts behind some dense blocks.
ModelSpec deepseek(const char* name, const DeepSeekShape& shape) {
  ModelSpec m = llama(name, {shape.layers, shape.hidden, shape.heads, shape.heads,
                             shape.expert_hidden, shape.vocab, 163840});
  m.latent = {512, shape.q_lora_rank, 128, 64, 128};
  m.head_dim = m.latent.qk_head_dim();
  m.norm_eps = 1e-6;
  m.experts = shape.experts;
  m.experts_per_token = shape.chosen;
  m.dense_layers = shape.dense_layers;
  m.dense_ffn_hidden = shape.dense_ffn_hidden;
  m.shared_expert_hidden = shape.shared * shape.expert_hidden;
  m.router_score = shape.score;
  m.simulated_only = shape.lacking;
  return m;
}

/// One for CPUs, of the same kind as DeepSeek-V3: it has a narrow row for queries, too.
ModelSpec mla_tiny() {
  ModelSpec m = llama("mla-tiny", {4, 64, 4, 4, 48, 256, 128});
  m.latent = {24, 32, 16, 8, 16};
  m.head_dim = m.latent.qk_head_dim();
  m.experts = 4;
  m.dense_layers = 1;
  m.dense_ffn_hidden = 160;
  m.shared_expert_hidden = 48;
  m.router_score = RouterScore::Sigmoid;
  m.router_bias_update_rate = 0.001;
  return m;
}

ModelSpec resnet(const char* name, std::vector<int> blocks, bool bottleneck) {
  ModelSpec m;
  m.name = name;
  m.architecture = Architecture::Resnet;
  m.layers = std::accumulate(blocks.begin(), blocks.end(), 0);
  m.blocks = std::move(blocks);
  m.bottleneck = bottleneck;
  return m;
}

/// A network for CPUs and images of CIFAR's size, with three stages of one block each.
ModelSpec resnet_tiny() {
  ModelSpec m = resnet("resnet-tiny", {1, 1, 1}, false);
  m.width = 8;
  m.image_size = 32;
  m.classes = 10;
  m.small_stem = true;
  return m;
}

/// With the epsilon of the original's and torchvision's norms.
ModelSpec vit(const char* name, std::int64_t patch_size, std::int64_t layers, std::int64_t hidden,
              std::int64_t heads) {
  ModelSpec m;
  m.name = name;
  m.architecture = Architecture::Vit;
  m.patch_size = patch_size;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden = 4 * hidden;
  m.norm_eps = 1e-6;
  return m;
}

/// A network for CPUs and images of CIFAR's size, with 64 patches.
ModelSpec vit_tiny() {
  ModelSpec m = vit("vit-tiny", 4, 4, 64, 4);
  m.image_size = 32;
  m.classes = 10;
  return m;
}

ModelSpec synthetic() {
  ModelSpec m;
  m.name = "synthetic";
  m.architecture = Architecture::Synthetic;
  return m;
}

/// Sources of the shapes:
/// - GPT-2: hparams of openai/gpt-2;
/// - GPT-3 (175B, and 6.7B as gpt-7b): Brown et al. 2020, table 2.1;
/// - gpt-1.3b, with 16 heads: the 1.3B example of Megatron-LM;
/// - BERT: bert_config.json of google-research/bert, uncased, with the head for masked tokens and
///   without that for the next sentence. RoBERTa: config.json of the released weights, without the
///   two rows of positions that no token has;
/// - Llama and Mixtral (mistralai/Mixtral-8x7B-v0.1; Jiang et al. 2024): config.json of the
///   released weights;
/// - DeepSeek: config.json of deepseek-ai's DeepSeek-V2-Lite, DeepSeek-V2 and DeepSeek-V3, without
///   the latter's module that predicts a second token;
/// - ResNet: He et al. 2015, table 1;
/// - ViT: Dosovitskiy et al. 2020, table 1.
///
/// The byte-level models and vit-tiny are our own, small enough for CPUs.
const std::vector<ModelSpec>& model_presets() {
  static const std::vector<ModelSpec> list = {
      gpt2("gpt2-tiny", 4, 64, 4, 128, 256),
      gpt2("gpt2-small-byte", 4, 128, 4, 256, 256),
      gpt2("gpt2-124m", 12, 768, 12, 1024),
      gpt2("gpt2-350m", 24, 1024, 16, 1024),
      gpt2("gpt2-774m", 36, 1280, 20, 1024),
      gpt2("gpt2-1.5b", 48, 1600, 25, 1024),
      gpt2("gpt-1.3b", 24, 2048, 16, 2048),
      gpt2("gpt-7b", 32, 4096, 32, 2048),
      gpt2("gpt3-175b", 96, 12288, 96, 2048),
      bert("bert-tiny", 4, 64, 4, 128, 256, 1),
      bert("bert-base", 12, 768, 12, 512, 30522, 103),
      bert("bert-large", 24, 1024, 16, 512, 30522, 103),
      roberta("roberta-base", 12, 768, 12),
      roberta("roberta-large", 24, 1024, 16),
      llama("llama-tiny", {4, 64, 4, 2, 192, 256, 128}),
      llama("llama2-7b", {32, 4096, 32, 32, 11008, 32000, 4096}),
      llama("llama2-13b", {40, 5120, 40, 40, 13824, 32000, 4096}),
      llama("llama2-70b", {80, 8192, 64, 8, 28672, 32000, 4096}),
      llama("llama3-8b", {32, 4096, 32, 8, 14336, 128256, 8192, 500000.0}),
      llama("llama3-70b", {80, 8192, 64, 8, 28672, 128256, 8192, 500000.0}),
      llama("llama3-405b", {126, 16384, 128, 8, 53248, 128256, 131072, 500000.0}),
      gemma2("gemma2-tiny", {4, 64, 4, 2, 160, 256, 128}, 24, 32, 16),
      gemma2("gemma2-2b", {26, 2304, 8, 4, 9216, 256000, 8192}, 256),
      gemma2("gemma2-9b", {42, 3584, 16, 8, 14336, 256000, 8192}, 256),
      gemma2("gemma2-27b", {46, 4608, 32, 16, 36864, 256000, 8192}, 128, 4096, 144),
      mixtral("mixtral-tiny", {4, 64, 4, 2, 96, 256, 128}, 4),
      mixtral("mixtral-8x7b", {32, 4096, 32, 8, 14336, 32000, 32768, 1e6}, 8),
      mla_tiny(),
      deepseek("deepseek-v2-lite",
               {27, 2048, 16, 0, 10944, 1, 64, 6, 1408, 2, 102400, RouterScore::Softmax,
                "rope scaling of type 'yarn', norm_topk_prob = false"}),
      deepseek("deepseek-v2",
               {60, 5120, 128, 1536, 12288, 1, 160, 6, 1536, 2, 102400, RouterScore::Softmax,
                "rope scaling of type 'yarn', norm_topk_prob = false, routed_scaling_factor = "
                "16.0, a choice of experts by groups (n_group = 8)"}),
      deepseek("deepseek-v3",
               {61, 7168, 128, 1536, 18432, 3, 256, 8, 2048, 1, 129280, RouterScore::Sigmoid,
                "rope scaling of type 'yarn', routed_scaling_factor = 2.5, a choice of experts by "
                "groups (n_group = 8)"}),
      resnet("resnet-18", {2, 2, 2, 2}, false),
      resnet("resnet-34", {3, 4, 6, 3}, false),
      resnet("resnet-50", {3, 4, 6, 3}, true),
      resnet("resnet-101", {3, 4, 23, 3}, true),
      resnet_tiny(),
      vit("vit-b-16", 16, 12, 768, 12),
      vit("vit-l-16", 16, 24, 1024, 16),
      vit("vit-h-14", 14, 32, 1280, 16),
      vit_tiny(),
      synthetic(),
  };
  return list;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::optional<ModelSpec> find_model_preset(std::string_view name) {
  for (const ModelSpec& model : model_presets()) {
    if (same_name(model.name, name)) return model;
  }
  return std::nullopt;
}

std::vector<std::string> model_preset_names() {
  std::vector<std::string> names;
  for (const ModelSpec& model : model_presets()) names.push_back(model.name);
  return names;
}

std::optional<EmbeddedProfile> find_cluster_preset(std::string_view name) {
  for (const EmbeddedProfile& profile : embedded_profiles()) {
    if (same_name(profile.name, name)) return profile;
  }
  return std::nullopt;
}

namespace {

std::vector<std::string> names_of(const std::vector<EmbeddedProfile>& profiles) {
  std::vector<std::string> names;
  for (const EmbeddedProfile& profile : profiles) names.emplace_back(profile.name);
  return names;
}

}  // namespace

std::vector<std::string> cluster_preset_names() { return names_of(embedded_profiles()); }

std::vector<std::string> framework_preset_names() { return names_of(embedded_frameworks()); }

}  // namespace lockstep
