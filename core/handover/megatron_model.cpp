#include <algorithm>
#include <cctype>
#include <optional>

#include "core/base/nearest.hpp"
#include "core/handover/megatron_reader.hpp"
#include "core/spec/block_parts.hpp"

namespace lockstep {

Result<void> MegatronReader::read_model(const std::string& file) {
  if (plan_.take_model(options_)) {
    for (const ForeignName& name : foreign_names()) {
      if (name.key.starts_with("model.") && !name.megatron.empty()) {
        know(std::string(name.megatron));
      }
    }
    for (const char* name :
         {"group-query-attention", "swiglu", "squared-relu", "normalization",
          "position-embedding-type", "disable-bias-linear", "use-rope-scaling", "rotary-percent",
          "use-rotary-position-embeddings", "padded-vocab-size", "attention-dropout",
          "hidden-dropout", "make-vocab-size-divisible-by", "moe-ffn-hidden-size",
          "multi-latent-attention", "rope-type"}) {
      know(name);
    }
    return {};
  }
  for (const char* needed : {"num-layers", "hidden-size", "num-attention-heads"}) {
    if (!given(needed)) return lacks(needed);
    if (!number(needed)) {
      return invalid(from(needed) +
                     ": the script does not say this number: put it in, or name the model with "
                     "--model PRESET or --model config.json");
    }
  }
  if (const auto subject = foreign_subject(program_.name); !subject.empty()) {
    Error error = invalid(program_.name + " trains " + std::string(subject) +
                          ", and --num-layers and the like are not all of such a model: name "
                          "one with as much to compute with --model PRESET or --model config.json");
    error.where = SourceSpan{file, program_.line, 1};
    return error;
  }
  const auto refuse = [&](const std::string& why) {
    Error error = invalid(why);
    error.where = SourceSpan{file, std::max(1, program_.line), 1};
    return error;
  };
  if (trains_nothing(program_.name)) {
    return refuse(program_.name +
                  " trains nothing: import the script that starts a training, or "
                  "the arguments alone");
  }
  for (const char* name : {"language-model-type", "vision-model-type"}) {
    if (!given(name)) continue;
    return refuse(from(name) +
                  ": this trains images beside text, which no scenario has: name a "
                  "model with as much to compute with --model PRESET or --model config.json");
  }
  if (given("num-experts") && words("num-experts").find(' ') != std::string::npos) {
    return refuse(from("num-experts") +
                  ": blocks have other numbers of experts than others there, "
                  "and one number here: name a model with --model");
  }
  const bool quick = flag("quick-geglu");
  if (quick) plan_.lose(from("quick-geglu") + ": it is SwiGLU here, with as many parameters");
  const bool swiglu = flag("swiglu") || quick;
  const std::string norm = word("normalization");
  const std::string positions = word("position-embedding-type");
  const bool rotary = flag("use-rotary-position-embeddings") || positions == "rope";
  const bool latent = flag("multi-latent-attention");
  const bool other_positions =
      !rotary && !positions.empty() && positions != "learned_absolute" && positions != "none";
  if (other_positions) {
    plan_.lose(from("position-embedding-type") +
               ": no positions are here, which has as many parameters; its additions to the scores "
               "take no time");
  }
  const bool squared = flag("squared-relu"), none = positions == "none" || other_positions;
  const bool rms = norm == "RMSNorm", biases = !flag("disable-bias-linear") && !latent;
  // The usual parts are those of the architecture; what differs is said.
  const bool llama = (swiglu && (rotary || rms)) || (rotary && rms) || latent;
  llama_ = llama;
  const BlockParts usual = llama ? kLlamaParts : kGpt2Parts;
  plan_.text("model.name", "megatron");
  plan_.text("model.architecture", llama ? "llama" : "gpt2",
             swiglu   ? from(quick ? "quick-geglu" : "swiglu")
             : rms    ? from("normalization")
             : latent ? from("multi-latent-attention")
                      : "");
  if (rms != (usual.norm == NormKind::RmsNorm)) {
    plan_.text("model.norm", rms ? "rms_norm" : "layer_norm", rms ? from("normalization") : "");
  }
  const Activation activation = squared  ? Activation::SquaredRelu
                                : swiglu ? Activation::Swiglu
                                         : Activation::Gelu;
  if (activation != usual.activation) {
    plan_.text("model.activation",
               squared  ? "squared_relu"
               : swiglu ? "swiglu"
                        : "gelu",
               squared  ? from("squared-relu")
               : swiglu ? from(quick ? "quick-geglu" : "swiglu")
                        : "");
  }
  if (none || (rotary != (usual.positions == Positions::Rotary) && !latent)) {
    plan_.text("model.positions",
               none     ? "none"
               : rotary ? "rotary"
                        : "learned",
               positions.empty() || other_positions ? "" : from("position-embedding-type"));
  }
  if (biases != usual.biases) {
    plan_.flag("model.biases", biases, biases ? "" : from("disable-bias-linear"));
  }
  take("model.layers", 0);
  const std::int64_t hidden = take("model.hidden", 0);
  const std::int64_t heads = take("model.heads", 1);
  const bool grouped = flag("group-query-attention");
  const std::int64_t groups = integer("num-query-groups", 1);
  if (latent) {
    read_latent_attention();
  } else {
    take("model.head_dim", hidden / std::max<std::int64_t>(heads, 1));
    plan_.set("model.kv_heads", grouped ? groups : heads,
              grouped ? from("group-query-attention") : "");
  }
  // --ffn-hidden-size: 4 × hidden, or with SwiGLU 2/3 of it, down to a multiple of 64.
  take("model.ffn_hidden", swiglu ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden);
  const bool learned = !rotary && !none && (positions.empty() || positions == "learned_absolute");
  if (learned && !given("max-position-embeddings")) return lacks("max-position-embeddings");
  take("model.max_seq_len", 0);
  if (Result<void> vocabulary = read_vocabulary(file); !vocabulary) return vocabulary;
  take_real("model.norm_eps", 1e-5);
  const bool untied = flag("untie-embeddings-and-output-weights");
  plan_.flag("model.tied_embeddings", !untied,
             untied ? from("untie-embeddings-and-output-weights") : "");
  if (!biases) plan_.flag("model.qkv_bias", flag("add-qkv-bias"));
  if (latent && !given("disable-bias-linear")) {
    plan_.lose("biases of linear layers: with latent attention there are none here");
  }
  if (!latent) {
    const bool norms = flag("qk-layernorm");
    plan_.flag("model.qk_norm", norms, norms ? from("qk-layernorm") : "");
    if (norms && !rms) {
      plan_.lose(from("qk-layernorm") +
                 ": norms of queries and keys are RMS norms here, without --normalization RMSNorm, "
                 "too");
    }
  }
  if (rotary || latent) {
    take_real("model.rope_theta", 10000);
    if (flag("use-rope-scaling")) {
      take_real("model.rope_factor", 8);
      plan_.set("model.rope_original_length", 8192, from("use-rope-scaling"));
    }
    if (const auto part = number("rotary-percent"); part && *part != 1) {
      plan_.number("model.rotary_fraction", *part, from("rotary-percent"));
    }
  }
  read_experts();
  if (flag("embed-layernorm")) {
    plan_.lose(from("embed-layernorm") + ": the norm behind the embedding is not here; it has " +
               std::to_string(2 * hidden) + " parameters");
  }
  if (is_bert()) read_bert();
  for (const auto& [key, option] : {std::pair{"training.residual_dropout", "hidden-dropout"},
                                    std::pair{"training.embedding_dropout", "hidden-dropout"},
                                    std::pair{"training.attention_dropout", "attention-dropout"}}) {
    const std::optional<double> share = number(option);
    if (share == 0.0) continue;
    plan_.number(key, share.value_or(0.1),
                 share ? from(option) : "--" + std::string(option) + ", unless given");
  }
  return {};
}

Error MegatronReader::lacks(const std::string& needed) const {
  const std::string near = nearest(needed, names(), std::size_t{2});
  const bool encoder = given("encoder-num-layers");
  return invalid("there is no --" + needed + " here" + (near.empty() ? "" : ", only --" + near) +
                 (encoder ? "; --encoder-num-layers is of models with an encoder and a decoder, "
                            "which no scenario has"
                          : "") +
                 ": name the model with --model PRESET or --model config.json");
}

bool MegatronReader::is_deepspeed() const {
  return given("deepspeed") || given("zero-stage") || given("deepspeed-config") ||
         given("create-moe-param-group") || given("ds-inference");
}

bool MegatronReader::is_bert() const {
  return program_.name == "pretrain_bert.py" || given("bert-no-binary-head");
}

void MegatronReader::read_bert() {
  const std::string from_program =
      program_.name.empty() ? from("bert-no-binary-head") : program_.name;
  constexpr std::int64_t kMask = 103;
  plan_.flag("model.causal", false, from_program);
  plan_.flag("model.head_transform", true, from_program);
  plan_.set("model.mask_token", kMask);
  plan_.assume("that token " + std::to_string(kMask) +
               " stands for masked ones, [MASK] of BERT's vocabularies (model.mask_token)");
  const bool pairs = !flag("bert-no-binary-head");
  plan_.set("model.token_types", std::int64_t{pairs ? 2 : 0},
            pairs ? "" : from("bert-no-binary-head"));
  if (pairs) {
    plan_.lose(
        "the head that tells whether two texts follow each other, which BERT has without "
        "--bert-no-binary-head: only masked tokens are predicted here");
  }
  if (const auto share = number("mask-prob")) {
    plan_.number("training.mask_prob", *share, from("mask-prob"));
  }
}

void MegatronReader::read_latent_attention() {
  take("model.kv_lora_rank", 32);
  if (given("q-lora-rank")) take("model.q_lora_rank", 0);
  take("model.qk_nope_head_dim", 128);
  take("model.qk_rope_head_dim", 64);
  take("model.v_head_dim", 128);
  know("kv-channels");  // latent attention has sizes of its own
  if (!flag("qk-layernorm")) {
    plan_.lose("latent attention without --qk-layernorm: here its narrow rows have norms");
  }
  if (word("rope-type") != "rope") {
    plan_.lose(
        "rotary positions of YaRN, which latent attention has without --rope-type rope: they are "
        "not slowed down here");
  }
}

std::int64_t MegatronReader::vocabulary_by_name() {
  struct Tokenizer {
    std::string_view part;
    std::int64_t tokens;  // of the embedding of the models that have it
  };
  constexpr Tokenizer kTokenizers[] = {
      {"llama-2", 32000}, {"llama2", 32000},  {"llama-3", 128256},  {"llama3", 128256},
      {"qwen3", 151936},  {"qwen2", 151936},  {"deepseek", 129280}, {"mixtral", 32000},
      {"mistral", 32000}, {"gpt2bpe", 50257}, {"gpt2", 50257}};
  for (const char* name : {"tokenizer-model", "tokenizer-name-or-path", "tokenizer-type"}) {
    if (!given(name)) continue;
    std::string said = words(name);
    std::transform(said.begin(), said.end(), said.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const Tokenizer& row : kTokenizers) {
      if (said.find(row.part) == std::string::npos) continue;
      plan_.assume("a vocabulary of " + std::to_string(row.tokens) + ", as models with " +
                   from(name) + " have it (--arg vocab-size=N)");
      return row.tokens;
    }
  }
  return 0;
}

Result<void> MegatronReader::read_vocabulary(const std::string& file) {
  const std::int64_t divisor = product_of(
      {integer("make-vocab-size-divisible-by", 128), integer("tensor-model-parallel-size", 1)});
  for (const char* name : {"padded-vocab-size", "pad-vocab-size-to"}) {
    const auto padded = number(name);
    if (!padded) continue;
    plan_.set("model.vocab", whole_number(*padded), from(name));
    return {};
  }
  constexpr std::int64_t kGpt2 = 50257, kBert = 30522, kBertWithCase = 28996;
  const std::optional<double> size = number("vocab-size");
  const bool with_case = given("tokenizer-type") && words("tokenizer-type") == "BertWordPieceCase";
  const bool of_bert = is_bert() || (given("tokenizer-type") &&
                                     words("tokenizer-type").starts_with("BertWordPiece"));
  const std::int64_t usual = !of_bert ? kGpt2 : with_case ? kBertWithCase : kBert;
  std::int64_t tokens = size ? whole_number(*size) : 0;
  if (tokens == 0 && !is_bert()) tokens = vocabulary_by_name();
  const bool named = tokens > 0;
  constexpr std::int64_t kUsualDivisors = 1024;
  const std::int64_t divided_by = integer("make-vocab-size-divisible-by", 128);
  const bool usual_divisor = (divided_by & (divided_by - 1)) == 0 && divided_by <= kUsualDivisors;
  const std::string kind = given("tokenizer-type") ? words("tokenizer-type") : "";
  if (!named && !is_bert() &&
      ((!kind.empty() && !kind.starts_with("GPT2") && !kind.starts_with("BertWordPiece")) ||
       !usual_divisor)) {
    Error error =
        invalid("only the tokenizer knows the vocabulary (" +
                (kind.empty() ? from("make-vocab-size-divisible-by") : from("tokenizer-type")) +
                "), which decides the size of the model: give --arg vocab-size=N");
    error.where = SourceSpan{file, std::max(1, program_.line), 1};
    return error;
  }
  if (!named) tokens = usual;
  const std::int64_t padded = (tokens + divisor - 1) / divisor * divisor;
  plan_.set("model.vocab", padded, size ? from("vocab-size") : "");
  if (!named) {
    plan_.assume("a vocabulary of " + std::to_string(tokens) +
                 (of_bert ? ", BERT's" : ", GPT-2's") +
                 ", because only the tokenizer knows (--vocab-size), rounded up to a "
                 "multiple of " +
                 std::to_string(divisor));
  }
  return {};
}

}  // namespace lockstep
