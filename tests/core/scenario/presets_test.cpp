#include "core/scenario/presets.hpp"

#include <fstream>
#include <set>

#include "core/model/model.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// Parameters of a GPT-2: token and position tables; per block two layer norms (2·2C), qkv
/// (C·3C + 3C), projection (C·C + C), two feed-forward matrices with biases; the last norm.
std::int64_t gpt2_parameters(const ModelSpec& m) {
  const std::int64_t c = m.hidden, f = m.ffn_hidden;
  const std::int64_t block = 4 * c + (c * 3 * c + 3 * c) + (c * c + c) + (c * f + f) + (f * c + c);
  return m.vocab * c + m.max_seq_len * c + m.layers * block + 2 * c;
}

/// Parameters of a Llama: embedding and output; per block two norms, q and o (C·hD), k and v
/// (C·kD), three feed-forward matrices; the last norm.
std::int64_t llama_parameters(const ModelSpec& m) {
  const std::int64_t c = m.hidden;
  const std::int64_t block =
      2 * c + 2 * c * m.heads * m.head_dim + 2 * c * m.kv_heads * m.head_dim + 3 * c * m.ffn_hidden;
  return 2 * m.vocab * c + m.layers * block + c;
}

TEST_CASE("presets have the parameter counts of the released models", "[core][scenario]") {
  const auto model = [](const char* name) { return *find_model_preset(name); };
  CHECK(gpt2_parameters(model("gpt2-124m")) == 124'439'808);
  CHECK(gpt2_parameters(model("gpt2-350m")) == 354'823'168);
  CHECK(gpt2_parameters(model("gpt2-774m")) == 774'030'080);
  CHECK(gpt2_parameters(model("gpt2-1.5b")) == 1'557'611'200);
  CHECK(llama_parameters(model("llama2-7b")) == 6'738'415'616);
  CHECK(llama_parameters(model("llama2-13b")) == 13'015'864'320);
  CHECK(llama_parameters(model("llama2-70b")) == 68'976'648'192);
  CHECK(llama_parameters(model("llama3-8b")) == 8'030'261'248);
  CHECK(llama_parameters(model("llama3-70b")) == 70'553'706'496);
  CHECK(llama_parameters(model("llama3-405b")) == 405'853'388'800);
  CHECK(gpt2_parameters(model("gpt3-175b")) / 1'000'000'000 == 174);
  CHECK(gpt2_parameters(model("gpt-1.3b")) / 100'000'000 == 13);
  CHECK(gpt2_parameters(model("gpt-7b")) / 100'000'000 == 66);
}

TEST_CASE("Mixtral 8x7B has 46.7 B parameters, of which a token meets 12.9 B", "[core][scenario]") {
  ModelSpec m = *find_model_preset("mixtral-8x7b");
  const auto parameters = [&m](std::int64_t experts) {  // of a block, beside a router of all
    const std::int64_t network = 3 * m.hidden * m.ffn_hidden, router = m.hidden * m.experts;
    return llama_parameters(m) + m.layers * (router + (experts - 1) * network);
  };
  CHECK(parameters(8) == 46'702'792'704);
  CHECK(parameters(2) == 12'879'925'248);
}

/// Parameters of a DeepSeek: embedding and output; per block two norms, latent attention, and a
/// dense network or experts with a router and a shared one; the last norm.
std::int64_t deepseek_parameters(const ModelSpec& m) {
  const std::int64_t c = m.hidden, network = 3 * c * m.ffn_hidden;
  const LatentSpec& l = m.latent;
  const std::int64_t q = m.heads * l.qk_head_dim();
  const std::int64_t queries =
      l.q_lora_rank > 0 ? c * l.q_lora_rank + l.q_lora_rank + l.q_lora_rank * q : c * q;
  const std::int64_t keys = c * (l.kv_lora_rank + l.qk_rope_head_dim) + l.kv_lora_rank +
                            l.kv_lora_rank * m.heads * (l.qk_nope_head_dim + l.v_head_dim);
  const std::int64_t attention = queries + keys + m.heads * l.v_head_dim * c;
  const std::int64_t mixture = c * m.experts + m.experts * network + 3 * c * m.shared_expert_hidden;
  return 2 * m.vocab * c + c + m.layers * (2 * c + attention) +
         m.dense_layers * 3 * c * m.dense_ffn_hidden + (m.layers - m.dense_layers) * mixture;
}

TEST_CASE("DeepSeek's models have the parameter counts of the released ones", "[core][scenario]") {
  const auto count = [](const char* name) { return deepseek_parameters(*find_model_preset(name)); };
  CHECK(count("deepseek-v2-lite") == 15'706'484'224);
  CHECK(count("deepseek-v2") == 235'741'434'880);
  CHECK(count("deepseek-v3") == 671'026'404'352);  // without the prediction of a second token
}

TEST_CASE("every model preset alone is a scenario", "[core][scenario]") {
  for (const std::string& name : model_preset_names()) {
    if (name == "synthetic") continue;
    const LoadedScenario loaded =
        parse_scenario("[model]\npreset = \"" + name + "\"\n", "one.toml", {});
    INFO(name);
    REQUIRE(loaded.ok());
    REQUIRE(loaded.points.size() == 1);
    const Scenario& s = loaded.points[0].scenario;
    CHECK(loaded.points[0].label.empty());
    CHECK(s.model.name == name);
    CHECK(s.name == "one");
    CHECK(s.cluster.name == "cpu");
    CHECK(s.training.seq_len <= (s.model.is_vision() ? 1 : s.model.max_seq_len));
    CHECK(validate(s).empty());
  }
}

TEST_CASE("cluster presets are the files of hardware/, all sound", "[core][scenario]") {
  const std::vector<std::string> names = cluster_preset_names();
  for (const char* name :
       {"v100",      "v100-pcie", "a100-40", "a100-80", "a100-40-pcie", "a100-80-pcie", "h100",
        "h100-pcie", "h200",      "h800",    "h20",     "gh200",        "b200",         "gb200",
        "gb300",     "l40s",      "rtx4090", "mi250x",  "mi300x",       "cpu"}) {
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  for (const EmbeddedProfile& profile : embedded_profiles()) {
    INFO(profile.name);
    const LoadedScenario loaded = parse_scenario(
        "[model]\npreset = \"gpt2-tiny\"\n[cluster]\n"
        "preset = \"" +
            std::string(profile.name) + "\"\n",
        "one.toml", {});
    for (const Error& error : loaded.errors) FAIL_CHECK(to_string(error));
    REQUIRE(loaded.ok());
    const ClusterSpec& c = loaded.points[0].scenario.cluster;
    CHECK(c.name == profile.name);
    // A wrong unit would be off by 8 or 1000. These bounds contain all devices that have been
    // built.
    CHECK(c.device.memory.v >= 4'000'000'000);
    CHECK(c.device.memory.v <= 300'000'000'000);
    CHECK(c.device.memory_bandwidth.v >= 5e9);
    CHECK(c.device.memory_bandwidth.v <= 1e13);
    CHECK(c.intra_node.bandwidth.v > c.inter_node.bandwidth.v);
    CHECK(c.intra_node.latency.v <= c.inter_node.latency.v);
    const bool gpu = profile.name != "cpu";
    CHECK((c.network.library == CollectiveLibrary::Nccl) == gpu);
    for (const PeakRate& peak : c.device.peaks) {
      CHECK(peak.rate.v >= 1e10);
      CHECK(peak.rate.v <= 1e16);
    }
    for (const EfficiencyCurve& curve : c.device.efficiency) {
      for (const EfficiencyPoint& point : curve.points) CHECK(point.efficiency <= 1.0);
    }
    std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/hardware/" + std::string(profile.name) +
                       ".toml");
    const std::string on_disk((std::istreambuf_iterator<char>(file)), {});
    CHECK(on_disk == profile.text);
  }
}

TEST_CASE("preset names are found whatever their case", "[core][scenario]") {
  CHECK(find_model_preset("GPT2-124M")->name == "gpt2-124m");
  CHECK(find_cluster_preset("A100-80")->name == "a100-80");
  CHECK_FALSE(find_model_preset("gpt2"));
  CHECK_FALSE(find_cluster_preset(""));
}

TEST_CASE("a Hugging Face llama config gives the preset's shape", "[core][scenario]") {
  const char* v4 = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "tie_word_embeddings": false, "hidden_act": "silu",
    "torch_dtype": "bfloat16"})";
  const Result<HfModel> read = parse_hf_config(v4, "llama3-8b/config.json");
  REQUIRE(read);
  CHECK(read->model == *find_model_preset("llama3-8b"));
  CHECK(read->sliding_window == 0);
}

TEST_CASE("transformers 5 keeps rope_theta in rope_parameters; null means derived",
          "[core][scenario]") {
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
  CHECK(read->sliding_window == 4096);
  CHECK(read->model.name == "mistral");
}

TEST_CASE("a Hugging Face mixtral config gives the preset's shape", "[core][scenario]") {
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

TEST_CASE("rotary positions of Llama 3.1 and biases of Qwen2 are read", "[core][scenario]") {
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
  CHECK(qwen->sliding_window == 0);
  CHECK(qwen->warnings.empty());
}

TEST_CASE("a key of a Hugging Face config that changes numbers is used or named",
          "[core][scenario]") {
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

TEST_CASE("a Hugging Face gpt2 config gives the preset's shape", "[core][scenario]") {
  const Result<HfModel> read = parse_hf_config(
      R"({"model_type": "gpt2", "_name_or_path": "gpt2-124m", "n_embd": 768, "n_layer": 12,
          "n_head": 12, "n_positions": 1024, "n_inner": null, "vocab_size": 50257,
          "activation_function": "gelu_new"})",
      "config.json");
  REQUIRE(read);
  CHECK(read->model == *find_model_preset("gpt2-124m"));
}

TEST_CASE("Qwen3, its mixture and Phi-3 are Llamas with what their keys say", "[core][scenario]") {
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
  CHECK(partial->model.simulated_only == "partial_rotary_factor = 0.75");
  CHECK(partial->warnings[0] ==
        "c.json: the model can be simulated, and not trained: Lockstep lacks "
        "partial_rotary_factor = 0.75");
}

TEST_CASE("Gemma and GPT-NeoX have the parameters of their products, and are simulated alone",
          "[core][scenario]") {
  // google/gemma-2-9b and EleutherAI/pythia-6.9b.
  const auto gemma = parse_hf_config(
      R"({"model_type": "gemma2", "attn_logit_softcapping": 50.0, "attention_bias": false,
          "attention_dropout": 0.0, "cache_implementation": "hybrid", "final_logit_softcapping": 30.0,
          "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
          "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584,
          "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 16,
          "num_hidden_layers": 42, "num_key_value_heads": 8, "query_pre_attn_scalar": 256,
          "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
          "sliding_window_size": 4096, "vocab_size": 256000})",
      "c.json");
  REQUIRE(gemma.ok());
  CHECK(gemma->model.tied_embeddings);
  CHECK_THAT(gemma->model.simulated_only,
             ContainsSubstring("hidden_activation 'gelu_pytorch_tanh'") &&
                 ContainsSubstring("attn_logit_softcapping"));
  CHECK(gemma->sliding_window == 0);
  CHECK_THAT(gemma->warnings[0], ContainsSubstring("sliding_window = 4096"));
  const auto count = [](const ModelSpec& m) {
    const std::int64_t heads = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
    return m.layers * (m.hidden * (2 * heads + 2 * kv) + 3 * m.hidden * m.ffn_hidden) +
           m.hidden * m.vocab;
  };
  // 9,241,705,984 as published, of which four norms a block and one at the end are left out here.
  CHECK(count(gemma->model) == 9'241'705'984 - (4 * 42 + 1) * 3584);

  const auto pythia = parse_hf_config(
      R"({"model_type": "gpt_neox", "hidden_act": "gelu", "hidden_size": 4096,
          "intermediate_size": 16384, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
          "num_attention_heads": 32, "num_hidden_layers": 32, "rotary_emb_base": 10000,
          "rotary_pct": 0.25, "tie_word_embeddings": false, "use_parallel_residual": true,
          "vocab_size": 50432})",
      "c.json");
  REQUIRE(pythia.ok());
  CHECK(pythia->model.architecture == Architecture::Gpt2);
  CHECK_FALSE(pythia->model.tied_embeddings);
  CHECK_THAT(pythia->model.simulated_only, ContainsSubstring("use_parallel_residual"));
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
          "[core][scenario]") {
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

TEST_CASE("DeepSeek-V2-Lite's config.json is its preset", "[core][scenario]") {
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
          "[core][scenario][encoder]") {
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
          "[core][scenario][encoder]") {
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
          "[core][scenario]") {
  for (const auto& [type, key] : {std::pair("gemma3", "an encoder of images")}) {
    const auto read =
        parse_hf_config(std::string(R"({"model_type": ")") + type + R"("})", "c.json");
    REQUIRE(!read.ok());
    CHECK(read.error().kind == ErrorKind::Unsupported);
    CHECK(read.error().message.find(key) != std::string::npos);
  }
}

TEST_CASE("Granite, OLMo 2, OPT and ViT have the parameters that were published",
          "[core][scenario]") {
  const auto read = [](const char* json) {
    const Result<HfModel> model = parse_hf_config(json, "m/config.json");
    if (!model) FAIL(model.error().message);
    return model->model;
  };
  const auto parameters = [](const ModelSpec& m) { return build_layers(m, {}).parameter_count(); };
  // ibm-granite/granite-3.1-8b-base, of which the card says 8.17 B: 40 blocks of 4,096² · 2.5 for
  // attention and 3 · 4,096 · 12,800, two norms each, a last norm and one table.
  const ModelSpec granite = read(
      R"({"model_type": "granite", "hidden_size": 4096, "intermediate_size": 12800,
          "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
          "tie_word_embeddings": true, "vocab_size": 49155, "max_position_embeddings": 4096,
          "embedding_multiplier": 12.0, "attention_multiplier": 0.0078125, "rms_norm_eps": 1e-05,
          "residual_multiplier": 0.22, "logits_scaling": 16.0, "rope_theta": 10000})");
  CHECK(parameters(granite) ==
        40LL * (4096 * 4096 / 2 * 5 + 3LL * 4096 * 12800 + 2 * 4096) + 4096 + 49155LL * 4096);
  CHECK_THAT(granite.simulated_only, ContainsSubstring("logits_scaling = 16.0"));
  // allenai/OLMo-2-1124-7B, 7.3 B. Of a block 8,192 are norms of queries and keys over all heads,
  // where 256 are simulated.
  const ModelSpec olmo = read(
      R"({"model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008,
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
          "tie_word_embeddings": false, "vocab_size": 100352, "max_position_embeddings": 4096,
          "rms_norm_eps": 1e-06, "rope_theta": 500000})");
  CHECK(parameters(olmo) == 7298617344 - 32 * (8192 - 256));
  // facebook/opt-125m: 125,239,296 with two more rows of positions.
  const ModelSpec opt = read(
      R"({"model_type": "opt", "ffn_dim": 3072, "hidden_size": 768, "num_attention_heads": 12,
          "num_hidden_layers": 12, "max_position_embeddings": 2048, "vocab_size": 50272,
          "word_embed_proj_dim": 768, "activation_function": "relu"})");
  CHECK(parameters(opt) == 125239296 - 2 * 768);
  // google/vit-base-patch16-224: 86,567,656 with 1,000 classes, less two vectors of `hidden`, as of
  // the preset vit-b-16 (docs/scenario.md).
  ModelSpec vit = read(
      R"({"model_type": "vit", "hidden_size": 768, "image_size": 224, "intermediate_size": 3072,
          "num_attention_heads": 12, "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": true,
          "hidden_act": "gelu", "num_channels": 3, "id2label": {"0": "cat", "1": "dog"}})");
  CHECK(vit.classes == 2);
  vit.classes = 1000;
  CHECK(parameters(vit) == 86567656 - 2 * 768);
}

TEST_CASE("a Hugging Face config that we cannot run is refused with its reason",
          "[core][scenario]") {
  const auto message = [](const char* json) {
    const Result<HfModel> read = parse_hf_config(json, "c.json");
    return read ? std::string() : read.error().message;
  };
  CHECK(message("[1, 2") == "c.json is not a JSON object");
  CHECK(message("{}") ==
        "c.json: model_type '' is not supported; valid: llama, mistral, mixtral, qwen2, qwen2_moe, "
        "qwen3, "
        "qwen3_moe, phi3, gpt2, gpt_neox, bert, roberta, xlm-roberta, gemma, gemma2, gemma3_text, "
        "deepseek_v2, deepseek_v3, granite, olmo, olmo2, opt, vit");
  CHECK(message(R"({"model_type": "mamba"})") ==
        "c.json: model_type 'mamba' is not supported; valid: llama, mistral, mixtral, qwen2, "
        "qwen2_moe, "
        "qwen3, qwen3_moe, phi3, gpt2, gpt_neox, bert, roberta, xlm-roberta, gemma, gemma2, "
        "gemma3_text, "
        "deepseek_v2, deepseek_v3, granite, olmo, olmo2, opt, vit");
  CHECK_THAT(message(R"({"model_type": "clip"})"), ContainsSubstring("two encoders"));
  CHECK_THAT(message(R"({"model_type": "opt", "word_embed_proj_dim": 512, "hidden_size": 1024})"),
             ContainsSubstring("projection"));
  CHECK(message(R"({"model_type": "gpt2"})") == "c.json: 'n_layer' is missing");
  CHECK(message(R"({"model_type": "gpt2", "n_layer": "12"})") ==
        "c.json: 'n_layer' is not an integer");
  CHECK(message(R"({"model_type": "gpt2", "n_layer": 9223372036854775808})") ==
        "c.json: 'n_layer' is too large: 9223372036854775808");
  const auto relu =
      parse_hf_config(R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 4, "n_head": 1,
                          "vocab_size": 9, "n_positions": 8, "activation_function": "relu"})",
                      "c.json");
  REQUIRE(relu.ok());
  CHECK(relu->model.simulated_only == "activation_function 'relu'");
}

}  // namespace
}  // namespace lockstep
