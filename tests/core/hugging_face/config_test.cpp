#include "core/hugging_face/config.hpp"

#include <map>
#include <random>

#include "core/hugging_face/families.hpp"
#include "core/model/model.hpp"
#include "core/scenario/presets.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("a Hugging Face llama config gives the preset's shape", "[core][hugging_face]") {
  const char* v4 = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "tie_word_embeddings": false, "hidden_act": "silu",
    "torch_dtype": "bfloat16"})";
  const Result<HfModel> read = parse_hf_config(v4, "llama3-8b/config.json");
  REQUIRE(read);
  CHECK(read->model == *find_model_preset("llama3-8b"));
  CHECK(read->model.sliding_window == 0);
}

TEST_CASE("transformers 5 keeps rope_theta in rope_parameters; null means derived",
          "[core][hugging_face]") {
  const char* v5 = R"({"model_type": "mistral", "hidden_size": 64, "intermediate_size": 160,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": null,
    "head_dim": null, "vocab_size": 256, "sliding_window": 4096,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}})";
  const Result<HfModel> read = parse_hf_config(v5, "config.json");
  REQUIRE(read);
  CHECK(read->model.kv_heads == 4);
  CHECK(read->model.head_dim == 16);
  CHECK(read->model.rope_theta == 1e6);
  CHECK(read->model.norm_eps == 1e-6);  // the default of transformers' LlamaConfig
  CHECK(read->model.sliding_window == 4096);
  CHECK(read->model.name == "mistral");
}

TEST_CASE("a Hugging Face mixtral config gives the preset's shape", "[core][hugging_face]") {
  const char* text = R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 32000, "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0, "sliding_window": null, "num_local_experts": 8,
    "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02)";
  const auto read = parse_hf_config(std::string(text) + ", \"output_router_logits\": true}",
                                    "mixtral-8x7b/config.json");
  REQUIRE(read);
  ModelSpec expected = *find_model_preset("mixtral-8x7b");
  expected.router_aux_loss_coef = 0.02;
  CHECK(read->model == expected);
  // Without the logits transformers adds no loss for balance.
  const auto silent = parse_hf_config(std::string(text) + "}", "mixtral-8x7b/config.json");
  REQUIRE(silent);
  CHECK(silent->model == *find_model_preset("mixtral-8x7b"));
  CHECK(silent->warnings.at(0) ==
        "mixtral-8x7b/config.json: router_aux_loss_coef = 0.02 has no effect without "
        "output_router_logits, as in transformers; set model.router_aux_loss_coef to balance the "
        "experts");
}

TEST_CASE("rotary positions of Llama 3.1 and biases of Qwen2 are read", "[core][hugging_face]") {
  const std::string sizes = R"("hidden_size": 64, "intermediate_size": 160,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256)";
  const auto llama = parse_hf_config(
      "{\"model_type\": \"llama\", " + sizes +
          R"(, "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
           "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
           "rope_type": "llama3"}})",
      "c.json");
  REQUIRE(llama);
  CHECK(llama->model.rope_scaling == RopeScaling{8, 8192, 1, 4});
  CHECK(llama->warnings.empty());
  const auto linear = parse_hf_config("{\"model_type\": \"llama\", " + sizes +
                                          R"(, "rope_scaling": {"type": "linear", "factor": 2}})",
                                      "c.json");
  REQUIRE(linear);
  CHECK(linear->model.rope_scaling == RopeScaling{2, 0, 1, 4});
  const auto qwen = parse_hf_config("{\"model_type\": \"qwen2\", " + sizes +
                                        R"(, "use_sliding_window": false, "sliding_window": 32,
                                         "max_window_layers": 28})",
                                    "c.json");
  REQUIRE(qwen);
  CHECK(qwen->model.qkv_bias);
  CHECK(qwen->model.sliding_window == 0);
  CHECK(qwen->warnings.empty());
}

TEST_CASE("a key of a Hugging Face config that changes numbers is used or named",
          "[core][hugging_face]") {
  const std::string gpt2 = R"("model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 4,
    "n_positions": 32, "vocab_size": 256)";
  const auto read =
      parse_hf_config("{" + gpt2 + R"(, "attn_pdrop": 0.1, "embd_pdrop": 0.2, "resid_pdrop": 0.0,
                       "use_cache": true, "torch_dtype": "float32", "swish_gain": 2})",
                      "c.json");
  REQUIRE(read);
  CHECK(read->warnings ==
        std::vector<std::string>{"c.json: 'swish_gain' is not used, and may change what the model "
                                 "computes"});
  CHECK(read->dropouts ==
        std::map<std::string, std::string>{
            {"attention_dropout",
             "c.json: attn_pdrop = 0.1 is not applied: give training.attention_dropout = 0.1 to "
             "train with it"},
            {"embedding_dropout",
             "c.json: embd_pdrop = 0.2 is not applied: give training.embedding_dropout = 0.2 to "
             "train with it"}});
  const auto refused = [&](const std::string& more) {
    const auto other = parse_hf_config("{" + gpt2 + ", " + more + "}", "c.json");
    return other ? std::string() : other.error().message;
  };
  CHECK(refused(R"("add_cross_attention": true)") ==
        "c.json: add_cross_attention = true is not supported: its layers are not built");
  CHECK(refused(R"("quantization_config": {"bits": 4})") ==
        "c.json: quantized weights are not supported: give the configuration of the full model");
}

TEST_CASE("a Hugging Face gpt2 config gives the preset's shape", "[core][hugging_face]") {
  const Result<HfModel> read = parse_hf_config(
      R"({"model_type": "gpt2", "_name_or_path": "gpt2-124m", "n_embd": 768, "n_layer": 12,
          "n_head": 12, "n_positions": 1024, "n_inner": null, "vocab_size": 50257,
          "activation_function": "gelu_new"})",
      "config.json");
  REQUIRE(read);
  CHECK(read->model == *find_model_preset("gpt2-124m"));
}

TEST_CASE("Qwen3, its mixture and Phi-3 are Llamas with what their keys say",
          "[core][hugging_face]") {
  const std::string sizes =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 99, "rope_theta": 1e6,
         "sliding_window": null)";
  const auto qwen3 = parse_hf_config(
      "{\"model_type\": \"qwen3\", " + sizes + R"(, "layer_types": ["full_attention"]})", "c.json");
  REQUIRE(qwen3);
  CHECK(qwen3->model.qk_norm);
  CHECK(qwen3->model.head_dim == 128);  // the default of its configuration class
  CHECK(!qwen3->model.qkv_bias);
  CHECK(qwen3->warnings.empty());

  const std::string moe = R"(, "num_experts": 8, "num_experts_per_tok": 3, "head_dim": 16,
                              "moe_intermediate_size": 48, "decoder_sparse_step": 1,
                              "mlp_only_layers": [])";
  const auto mixture = parse_hf_config(
      "{\"model_type\": \"qwen3_moe\", " + sizes + moe + R"(, "norm_topk_prob": true})", "c.json");
  REQUIRE(mixture);
  CHECK(mixture->model.qk_norm);
  CHECK(mixture->model.experts == 8);
  CHECK(mixture->model.experts_per_token == 3);
  CHECK(mixture->model.ffn_hidden == 48);
  CHECK(mixture->model.head_dim == 16);
  const auto unequal =
      parse_hf_config("{\"model_type\": \"qwen3_moe\", " + sizes + moe + "}", "c.json");
  REQUIRE(unequal.ok());
  CHECK(unequal->model.simulated_only == "norm_topk_prob = false");

  const auto phi3 =
      parse_hf_config("{\"model_type\": \"phi3\", " + sizes +
                          R"(, "original_max_position_embeddings": 4096, "resid_pdrop": 0.1})",
                      "c.json");
  REQUIRE(phi3);
  CHECK(phi3->model.fused_names);
  CHECK(phi3->model.head_dim == 16);
  CHECK(phi3->warnings.empty());
  REQUIRE(phi3->dropouts.size() == 1);
  CHECK(phi3->dropouts.at("residual_dropout") ==
        "c.json: resid_pdrop = 0.1 is not applied: give training.residual_dropout = 0.1 to train "
        "with it");
  const auto partial = parse_hf_config(
      "{\"model_type\": \"phi3\", " + sizes + R"(, "partial_rotary_factor": 0.75})", "c.json");
  REQUIRE(partial.ok());
  CHECK(partial->model.rotary_dim() == 12);
  CHECK(partial->warnings.empty());
}

std::int64_t parameters_of(const ModelSpec& m) { return build_layers(m, {}).parameter_count(); }

ModelSpec model_of(const std::string& json) {
  const Result<HfModel> read = parse_hf_config(json, "m/config.json");
  if (!read) FAIL(read.error().message);
  INFO(json);
  for (const std::string& warning : read->warnings) {
    CHECK(warning.find("is not used") == std::string::npos);
  }
  return read->model;
}

/// config.json of google/gemma-2-9b.
constexpr const char* kGemma2 =
    R"({"model_type": "gemma2", "attn_logit_softcapping": 50.0, "attention_bias": false,
        "attention_dropout": 0.0, "cache_implementation": "hybrid",
        "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584,
        "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 16,
        "num_hidden_layers": 42, "num_key_value_heads": 8, "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
        "sliding_window_size": 4096, "vocab_size": 256000})";

TEST_CASE("Gemma 2 is read whole, with the parameters that were published",
          "[core][hugging_face]") {
  const ModelSpec m = model_of(kGemma2);
  CHECK(m.simulated_only.empty());
  CHECK(parameters_of(m) == 9'241'705'984);
  CHECK(m.tied_embeddings);
  CHECK(m.norm_place == NormPlace::Around);
  CHECK(m.parts().activation == Activation::Geglu);
  CHECK(m.embedding_multiplier == Approx(59.8665181883831));  // the root of 3584
  CHECK(m.attention_multiplier == 0);                         // 1 / the root of head_dim
  CHECK(m.attention_softcap == 50);
  CHECK(m.logit_softcap == 30);
  CHECK(m.window_of(0) == 4096);
  CHECK(m.window_of(1) == 0);
  CHECK(m.window_of(40) == 4096);
  ModelSpec preset = *find_model_preset("gemma2-9b");
  preset.name = m.name;
  CHECK(m == preset);
  std::string other = kGemma2;  // 27B divides scores by the root of 144
  other.replace(other.find("scalar\": 256"), 12, "scalar\": 144");
  CHECK(model_of(other).attention_multiplier == Approx(1.0 / 12));
}

TEST_CASE("Gemma 3 has windows in five of six blocks, with other rotary positions",
          "[core][hugging_face]") {
  // google/gemma-3-1b-pt: 999,885,952.
  const std::string json =
      R"({"model_type": "gemma3_text", "attention_bias": false, "attention_dropout": 0.0,
          "attn_logit_softcapping": null, "final_logit_softcapping": null, "head_dim": 256,
          "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
          "intermediate_size": 6912, "max_position_embeddings": 32768, "num_attention_heads": 4,
          "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
          "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
          "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
          "vocab_size": 262144})";
  const ModelSpec m = model_of(json);
  CHECK(m.simulated_only.empty());
  CHECK(parameters_of(m) == 999'885'952);
  CHECK(m.qk_norm);
  CHECK(m.local_rope_theta == 10000);
  CHECK(m.window_of(4) == 512);
  CHECK(m.window_of(5) == 0);
}

TEST_CASE("a null cap or window is none, and a missing one is the family's",
          "[core][hugging_face]") {
  const auto read = [](const std::string& more) {
    return model_of(
        R"({"model_type": "gemma2", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 99,
            "num_attention_heads": 4, "num_hidden_layers": 4)" +
        more + "}");
  };
  CHECK(read("").logit_softcap == 30);
  CHECK(read("").sliding_window == 4096);
  const ModelSpec none = read(
      R"(, "attn_logit_softcapping": null, "final_logit_softcapping": null, "sliding_window": null)");
  CHECK(none.attention_softcap == 0);
  CHECK(none.logit_softcap == 0);
  CHECK(none.sliding_window == 0);
  CHECK_THAT(*print_hf_config(none, "float32"), ContainsSubstring("\"sliding_window\": null"));
}

TEST_CASE("rotary positions of transformers 5 are those of each kind of block",
          "[core][hugging_face]") {
  const ModelSpec gemma = model_of(
      R"({"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 6, "sliding_window": 8,
          "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}})");
  CHECK(gemma.rope_theta == 1e6);
  CHECK(gemma.rope_scaling.factor == 8);
  CHECK(gemma.local_rope_theta == 5000);
  CHECK(gemma.vocab == 262208);  // as its configuration class has it
  const ModelSpec pythia = model_of(
      R"({"model_type": "gpt_neox", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 99,
          "num_attention_heads": 4, "num_hidden_layers": 2,
          "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0,
                              "partial_rotary_factor": 1.0}})");
  CHECK(pythia.rope_theta == 5000);
  CHECK(pythia.rotary_dim() == 16);
}

TEST_CASE("windows are those of layer_types, if these have a period", "[core][hugging_face]") {
  const auto read = [](const std::string& kinds) {
    const std::string json =
        R"({"model_type": "gemma2", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 99,
            "num_attention_heads": 4, "num_hidden_layers": 4, "sliding_window": 8,
            "layer_types": [)" +
        kinds + "]}";
    return model_of(json);
  };
  const std::string s = "\"sliding_attention\"", f = "\"full_attention\"";
  CHECK(read(s + "," + s + "," + s + "," + f).global_period == 4);
  CHECK(read(f + "," + f + "," + f + "," + f).sliding_window == 0);
  CHECK(read(s + "," + s + "," + s + "," + s).global_period == 0);
  CHECK_THAT(read(s + "," + f + "," + f + "," + s).simulated_only,
             ContainsSubstring("follow no period"));
}

TEST_CASE("published models of other parts have the parameters that were published",
          "[core][hugging_face]") {
  struct Published {
    const char* json;
    std::int64_t parameters;
    const char* lacks;  // "": it trains
  };
  const Published published[] = {
      // EleutherAI/pythia-6.9b
      {R"({"model_type": "gpt_neox", "hidden_act": "gelu", "hidden_size": 4096,
           "intermediate_size": 16384, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
           "num_attention_heads": 32, "num_hidden_layers": 32, "rotary_emb_base": 10000,
           "rotary_pct": 0.25, "tie_word_embeddings": false, "use_parallel_residual": true,
           "vocab_size": 50432})",
       6'857'302'016, ""},
      // google/gemma-7b: 8,537,680,896
      {R"({"model_type": "gemma", "attention_bias": false, "attention_dropout": 0.0,
           "head_dim": 256, "hidden_act": "gelu", "hidden_activation": null, "hidden_size": 3072,
           "intermediate_size": 24576, "max_position_embeddings": 8192,
           "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 16,
           "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "vocab_size": 256000})",
       8'537'680'896, ""},
      // bigcode/starcoder2-3b: 3,030,371,328
      {R"({"model_type": "starcoder2", "attention_dropout": 0.1, "embedding_dropout": 0.1,
           "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072, "intermediate_size": 12288,
           "max_position_embeddings": 16384, "norm_epsilon": 1e-05, "norm_type": "layer_norm",
           "num_attention_heads": 24, "num_hidden_layers": 30, "num_key_value_heads": 2,
           "residual_dropout": 0.1, "rope_theta": 999999.4420358813, "sliding_window": 4096,
           "use_bias": true, "vocab_size": 49152, "mlp_type": "default"})",
       3'030'371'328, ""},
      // stabilityai/stablelm-2-1_6b: 1,644,515,328
      {R"({"model_type": "stablelm", "hidden_act": "silu", "hidden_size": 2048,
           "intermediate_size": 5632, "layer_norm_eps": 1e-05, "max_position_embeddings": 4096,
           "num_attention_heads": 32, "num_hidden_layers": 24, "num_key_value_heads": 32,
           "partial_rotary_factor": 0.25, "rope_theta": 10000, "tie_word_embeddings": false,
           "use_qkv_bias": true, "vocab_size": 100352})",
       1'644'515'328, ""},
      // facebook/opt-125m: 125,239,296 with two more rows of positions
      {R"({"model_type": "opt", "ffn_dim": 3072, "hidden_size": 768, "num_attention_heads": 12,
           "num_hidden_layers": 12, "max_position_embeddings": 2048, "vocab_size": 50272,
           "word_embed_proj_dim": 768, "activation_function": "relu"})",
       125'239'296 - 2 * 768, ""},
      // ibm-granite/granite-3.1-8b-base, of which the card says 8.17 B: 40 blocks of 4,096² · 2.5
      // for attention and 3 · 4,096 · 12,800, two norms each, a last norm and one table
      {R"({"model_type": "granite", "hidden_size": 4096, "intermediate_size": 12800,
           "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
           "tie_word_embeddings": true, "vocab_size": 49155, "max_position_embeddings": 4096,
           "embedding_multiplier": 12.0, "attention_multiplier": 0.0078125,
           "rms_norm_eps": 1e-05, "residual_multiplier": 0.22, "logits_scaling": 16.0,
           "rope_theta": 10000})",
       40LL * (4096 * 4096 / 2 * 5 + 3LL * 4096 * 12800 + 2 * 4096) + 4096 + 49155LL * 4096, ""},
      // microsoft/phi-2: 2,779,683,840, of which 51,200 are the bias of the output layer
      {R"({"model_type": "phi", "attention_dropout": 0.0, "embd_pdrop": 0.0,
           "hidden_act": "gelu_new", "hidden_size": 2560, "intermediate_size": 10240,
           "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 32,
           "num_hidden_layers": 32, "num_key_value_heads": 32, "partial_rotary_factor": 0.4,
           "qk_layernorm": false, "resid_pdrop": 0.1, "rope_theta": 10000.0,
           "tie_word_embeddings": false, "vocab_size": 51200})",
       2'779'683'840 - 51200, "a bias of the output layer"},
      // tiiuae/falcon-7b: 6,921,720,704
      {R"({"model_type": "falcon", "alibi": false, "attention_dropout": 0.0, "bias": false,
           "hidden_dropout": 0.0, "hidden_size": 4544, "layer_norm_epsilon": 1e-05,
           "multi_query": true, "new_decoder_architecture": false, "num_attention_heads": 71,
           "num_hidden_layers": 32, "parallel_attn": true, "vocab_size": 65024,
           "apply_residual_connection_post_layernorm": false})",
       6'921'720'704, ""},
      // bigcode/starcoderbase-1b: 1,137,207,296
      {R"({"model_type": "gpt_bigcode", "activation_function": "gelu_pytorch_tanh",
           "attention_softmax_in_fp32": true, "attn_pdrop": 0.1, "embd_pdrop": 0.1,
           "layer_norm_epsilon": 1e-05, "multi_query": true, "n_embd": 2048, "n_head": 16,
           "n_inner": 8192, "n_layer": 24, "n_positions": 8192, "resid_pdrop": 0.1,
           "scale_attention_softmax_in_fp32": true, "scale_attn_weights": true,
           "vocab_size": 49152})",
       1'137'207'296, ""},
      // bigscience/bloom-7b1: 7,069,016,064
      {R"({"model_type": "bloom", "hidden_size": 4096, "n_layer": 30, "num_attention_heads": 32,
           "vocab_size": 250880, "layer_norm_epsilon": 1e-05, "attention_dropout": 0.0,
           "hidden_dropout": 0.0, "masked_softmax_fusion": true, "unk_token_id": 0})",
       7'069'016'064, "ALiBi"},
      // a small one: 2 tables, and per block 4 · 64² for attention, 2 · 64 · 256 and two norms
      {R"({"model_type": "arcee", "attention_bias": false, "attention_dropout": 0.0, "head_dim": 16,
           "hidden_act": "relu2", "hidden_size": 64, "intermediate_size": 256, "mlp_bias": false,
           "max_position_embeddings": 4096, "num_attention_heads": 4, "num_hidden_layers": 2,
           "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "rope_scaling": null,
           "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": 500})",
       2 * 500 * 64 + 2 * (4 * 64 * 64 + 2 * 64 * 256 + 2 * 64) + 64, ""},
      // allenai/OLMo-2-1124-7B, 7,298,617,344. Of a block 8,192 are norms of queries and keys over
      // all heads, where 256 are simulated
      {R"({"model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008,
           "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
           "tie_word_embeddings": false, "vocab_size": 100352, "max_position_embeddings": 4096,
           "rms_norm_eps": 1e-06, "rope_theta": 500000})",
       7298617344 - 32 * (8192 - 256), "over all heads together"},
      // internlm/internlm2-7b: 7,737,708,544
      {R"({"model_type": "internlm2", "bias": false, "hidden_act": "silu", "hidden_size": 4096,
           "intermediate_size": 14336, "max_position_embeddings": 32768,
           "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
           "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
           "tie_word_embeddings": false, "vocab_size": 92544})",
       7'737'708'544, ""},
      // openai/gpt-oss-20b has 20,914,757,184 in all; sinks, biases of experts and of the output of
      // attention are not simulated
      {R"({"model_type": "gpt_oss", "attention_bias": true, "attention_dropout": 0.0,
           "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
           "initial_context_length": 4096, "intermediate_size": 2880,
           "layer_types": ["sliding_attention", "full_attention"],
           "max_position_embeddings": 131072, "num_attention_heads": 64,
           "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
           "num_local_experts": 32, "output_router_logits": false, "rms_norm_eps": 1e-05,
           "rope_scaling": {"rope_type": "yarn", "factor": 32.0}, "rope_theta": 150000,
           "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
           "tie_word_embeddings": false, "vocab_size": 201088})",
       20'914'757'184 - 24LL * (64 + 32 + 2880 + 32LL * (2 * 2880 + 2880)), "sinks"},
  };
  for (const Published& p : published) {
    const ModelSpec m = model_of(p.json);
    CHECK(parameters_of(m) == p.parameters);
    if (std::string(p.lacks).empty()) {
      CHECK(m.simulated_only.empty());
    } else {
      CHECK_THAT(m.simulated_only, ContainsSubstring(p.lacks));
    }
  }
}

TEST_CASE("what a model's config.json says is read again, of every family that is written",
          "[core][hugging_face]") {
  // Small models of random parts: a family either says all of a model, or is not taken for it.
  std::mt19937 random(7);
  const auto one_of = [&](auto... values) {
    const std::common_type_t<decltype(values)...> list[] = {values...};
    return list[random() % sizeof...(values)];
  };
  std::map<std::string_view, int> families;
  for (int i = 0; i < 4000; ++i) {
    ModelSpec m;
    m.name = "small";
    m.layers = 6;
    m.hidden = 64;
    m.heads = 4;
    m.kv_heads = one_of(4, 2);
    m.head_dim = one_of(16, 16, 32);
    m.ffn_hidden = 96;
    m.vocab = 99;
    m.max_seq_len = 128;
    m.architecture = one_of(Architecture::Gpt2, Architecture::Llama);
    m.tied_embeddings = one_of(true, false);
    if (one_of(1, 2) == 1) m.norm = one_of(NormKind::LayerNorm, NormKind::RmsNorm);
    if (one_of(1, 2) == 1)
      m.activation = one_of(Activation::Gelu, Activation::Geglu, Activation::Relu);
    if (one_of(1, 2) == 1) m.positions = Positions::Rotary;
    m.norm_place = one_of(NormPlace::Before, NormPlace::Before, NormPlace::Around);
    m.parallel_branches = one_of(false, false, true);
    m.rotary_fraction = one_of(1.0, 1.0, 0.25);
    m.embedding_multiplier = one_of(1.0, 8.0, 12.0);
    m.sliding_window = one_of(0, 0, 16);
    m.global_period = m.sliding_window > 0 ? one_of(0, 2, 6) : 0;
    m.qkv_bias = one_of(false, false, true);
    m.qk_norm = one_of(false, false, true);
    const Result<std::string> text = print_hf_config(m, "float32");
    if (!text) {
      CHECK_THAT(text.error().message, ContainsSubstring("has no layout"));
      continue;
    }
    const Result<HfModel> again = parse_hf_config(*text, "small/config.json");
    INFO(*text);
    REQUIRE(again.ok());
    CHECK(again->model.simulated_only.empty());
    CHECK(parameters_of(again->model) == parameters_of(m));
    CHECK(*print_hf_config(again->model, "float32") == *text);
    ++families[(*hf_family_of(m))->type];
  }
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2", "stablelm"}) {
    INFO(type);
    CHECK(families[type] > 0);
  }
}

constexpr const char* kDeepSeekV3 =
    R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1,
        "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
        "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512,
        "max_position_embeddings": 163840, "model_type": "deepseek_v3",
        "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
        "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
        "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
        "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "quantization_config": {"fmt": "e4m3", "quant_method": "fp8"},
        "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "factor": 40, "type": "yarn"},
        "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
        "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
        "torch_dtype": "bfloat16", "use_cache": true, "v_head_dim": 128, "vocab_size": 129280})";

TEST_CASE("DeepSeek-V3's config.json is its preset, and names what is not computed",
          "[core][hugging_face]") {
  const Result<HfModel> read = parse_hf_config(kDeepSeekV3, "c.json");
  REQUIRE(read.ok());
  ModelSpec preset = *find_model_preset("deepseek-v3");
  preset.name = read->model.name;
  CHECK(read->model == preset);
  std::string warnings;
  for (const std::string& warning : read->warnings) warnings += warning + "\n";
  for (const char* named :
       {"num_nextn_predict_layers = 1", "quantization_config", "topk_method = noaux_tc",
        "routed_scaling_factor = 2.5", "rope scaling of type 'yarn'", "n_group = 8"}) {
    CHECK_THAT(warnings, ContainsSubstring(named));
  }
  CHECK(warnings.find("is not used") == std::string::npos);
}

TEST_CASE("DeepSeek-V2-Lite's config.json is its preset", "[core][hugging_face]") {
  const Result<HfModel> read = parse_hf_config(
      R"({"attention_bias": false, "attention_dropout": 0.0, "aux_loss_alpha": 0.001,
          "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
          "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
          "model_type": "deepseek_v2", "moe_intermediate_size": 1408, "moe_layer_freq": 1,
          "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false,
          "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27,
          "num_key_value_heads": 16, "q_lora_rank": null, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
          "rope_scaling": {"factor": 40, "type": "yarn"}, "rope_theta": 10000,
          "routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": true,
          "tie_word_embeddings": false, "topk_group": 1, "topk_method": "greedy",
          "v_head_dim": 128, "vocab_size": 102400})",
      "c.json");
  REQUIRE(read.ok());
  ModelSpec preset = *find_model_preset("deepseek-v2-lite");
  preset.name = read->model.name;
  CHECK(read->model.simulated_only == "rope scaling of type 'yarn', norm_topk_prob = false");
  preset.simulated_only = read->model.simulated_only;
  CHECK(read->model == preset);
  std::string warnings;
  for (const std::string& warning : read->warnings) warnings += warning + "\n";
  CHECK_THAT(warnings, ContainsSubstring("aux_loss_alpha = 0.001"));
  CHECK(warnings.find("is not used") == std::string::npos);
}

TEST_CASE("BERT's config.json is its preset, and says how GELU is computed",
          "[core][hugging_face][encoder]") {
  const Result<HfModel> read = parse_hf_config(
      R"({"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
          "gradient_checkpointing": false, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
          "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
          "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
          "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
          "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
          "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522})",
      "c.json");
  if (!read) FAIL(to_string(read.error()));
  ModelSpec preset = *find_model_preset("bert-base");
  preset.name = read->model.name;
  CHECK(read->model == preset);
  std::string warnings;
  for (const std::string& warning : read->warnings) warnings += warning + "\n";
  CHECK_THAT(warnings, ContainsSubstring("hidden_act 'gelu' is computed by its approximation"));
  CHECK_THAT(read->dropouts.at("attention_dropout"),
             ContainsSubstring("training.attention_dropout = 0.1"));
  CHECK(warnings.find("is not used") == std::string::npos);
}

TEST_CASE("a RoBERTa has no rows for padding, and one of another vocabulary needs its mask token",
          "[core][hugging_face][encoder]") {
  const std::string config =
      R"({"architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1,
          "bos_token_id": 0, "eos_token_id": 2, "gradient_checkpointing": false,
          "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 1024,
          "initializer_range": 0.02, "intermediate_size": 4096, "layer_norm_eps": 1e-05,
          "max_position_embeddings": 514, "model_type": "roberta", "num_attention_heads": 16,
          "num_hidden_layers": 24, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 32000,
          "tokenizer_class": "BertTokenizer"})";
  const Result<HfModel> read = parse_hf_config(config, "c.json");
  if (!read) FAIL(to_string(read.error()));
  CHECK(read->model.token_types == 1);
  CHECK(read->model.max_seq_len == 512);
  CHECK(read->model.mask_token == -1);
  CHECK(read->model.simulated_only.empty());
  // Those that were published have their preset's shape and vocabulary; XLM-R has another one.
  const auto with = [&](const char* from, const char* to) {
    std::string changed = config;
    changed.replace(changed.find(from), std::string(from).size(), to);
    return parse_hf_config(changed, "c.json");
  };
  const Result<HfModel> published = with("\"vocab_size\": 32000", "\"vocab_size\": 50265");
  REQUIRE(published.ok());
  ModelSpec preset = *find_model_preset("roberta-large");
  preset.name = published->model.name;
  CHECK(published->model == preset);
  const Result<HfModel> multilingual = with("\"vocab_size\": 32000", "\"vocab_size\": 250002");
  REQUIRE(multilingual.ok());
  CHECK(multilingual->model.mask_token == 250001);
  const Result<HfModel> other = with("\"pad_token_id\": 1", "\"pad_token_id\": 0");
  REQUIRE(!other.ok());
  CHECK_THAT(other.error().message, ContainsSubstring("pad_token_id is not 1"));
  const auto decoder = parse_hf_config(
      R"({"model_type": "bert", "is_decoder": true, "add_cross_attention": true})", "c.json");
  REQUIRE(!decoder.ok());
  CHECK_THAT(decoder.error().message, ContainsSubstring("only the encoder is built"));
}

TEST_CASE("a model type that is known but lacks layers is refused by what it needs",
          "[core][hugging_face]") {
  for (const auto& [type, key] : {std::pair("gemma3", "an encoder of images")}) {
    const auto read =
        parse_hf_config(std::string(R"({"model_type": ")") + type + R"("})", "c.json");
    REQUIRE(!read.ok());
    CHECK(read.error().kind == ErrorKind::Unsupported);
    CHECK(read.error().message.find(key) != std::string::npos);
  }
}

TEST_CASE("the model of text is taken of a model that also reads images", "[core][hugging_face]") {
  const auto read = parse_hf_config(
      R"({"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
          "text_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
                          "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 99},
          "vision_config": {"hidden_size": 32}})",
      "m/config.json");
  REQUIRE(read.ok());
  CHECK(read->model.layers == 2);
  REQUIRE(read->warnings.size() == 1);
  CHECK_THAT(read->warnings[0], ContainsSubstring("text_config, a llama"));
  const auto other = parse_hf_config(
      R"({"model_type": "llava", "text_config": {"model_type": "unheard"}})", "m/config.json");
  REQUIRE(!other.ok());
  CHECK(other.error().kind == ErrorKind::Unsupported);
}

TEST_CASE("a type that is not known is read as the class that its file names",
          "[core][hugging_face]") {
  const std::string sizes = R"("hidden_size": 64, "intermediate_size": 96, "vocab_size": 99,
                               "num_attention_heads": 4, "num_hidden_layers": 2)";
  const auto read = parse_hf_config(
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "yi", )" + sizes + "}", "c.json");
  REQUIRE(read.ok());
  CHECK(read->model.hidden == 64);
  REQUIRE(read->warnings.size() == 1);
  CHECK_THAT(read->warnings[0], ContainsSubstring("'yi' is read as a llama"));
  CHECK_FALSE(parse_hf_config(
      R"({"architectures": ["OtherForCausalLM"], "model_type": "yi", )" + sizes + "}", "c.json"));
}

TEST_CASE("ViT has the parameters that were published", "[core][hugging_face]") {
  // google/vit-base-patch16-224: 86,567,656 with 1,000 classes, less two vectors of `hidden`, as of
  // the preset vit-b-16 (docs/scenario.md).
  ModelSpec vit = model_of(
      R"({"model_type": "vit", "hidden_size": 768, "image_size": 224, "intermediate_size": 3072,
          "num_attention_heads": 12, "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": true,
          "hidden_act": "gelu", "num_channels": 3, "id2label": {"0": "cat", "1": "dog"}})");
  CHECK(vit.classes == 2);
  vit.classes = 1000;
  CHECK(parameters_of(vit) == 86567656 - 2 * 768);
}

TEST_CASE("a Hugging Face config that we cannot run is refused with its reason",
          "[core][hugging_face]") {
  const auto message = [](const char* json) {
    const Result<HfModel> read = parse_hf_config(json, "c.json");
    return read ? std::string() : read.error().message;
  };
  CHECK(message("[1, 2") == "c.json is not a JSON object");
  std::string valid;
  for (const HfFamily& family : hf_families()) {
    valid += (valid.empty() ? "" : ", ") + std::string(family.type);
  }
  CHECK(message("{}") == "c.json: model_type '' is not supported; valid: " + valid);
  CHECK(message(R"({"model_type": "chameleon"})") ==
        "c.json: model_type 'chameleon' is not supported; valid: " + valid);
  CHECK_THAT(message(R"({"model_type": "mamba"})"), ContainsSubstring("it needs state spaces"));
  CHECK_THAT(message(R"({"model_type": "clip"})"), ContainsSubstring("two encoders"));
  CHECK_THAT(message(R"({"model_type": "opt", "word_embed_proj_dim": 512, "hidden_size": 1024})"),
             ContainsSubstring("projection"));
  CHECK(message(R"({"model_type": "gpt2"})") == "c.json: 'n_layer' is missing");
  CHECK(message(R"({"model_type": "gpt2", "n_layer": "12"})") ==
        "c.json: 'n_layer' is not an integer");
  CHECK(message(R"({"model_type": "gpt2", "n_layer": 9223372036854775808})") ==
        "c.json: 'n_layer' is too large: 9223372036854775808");
  const auto tanh =
      parse_hf_config(R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 4, "n_head": 1,
                          "vocab_size": 9, "n_positions": 8, "activation_function": "tanh"})",
                      "c.json");
  REQUIRE(tanh.ok());
  CHECK(tanh->model.simulated_only == "activation_function 'tanh'");
}

}  // namespace
}  // namespace lockstep
