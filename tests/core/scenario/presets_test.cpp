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

TEST_CASE("Gemma 2 has the parameter counts of the released models", "[core][scenario]") {
  const auto count = [](const char* name) {
    return build_layers(*find_model_preset(name), {}).parameter_count();
  };
  CHECK(count("gemma2-2b") == 2'614'341'888);
  CHECK(count("gemma2-9b") == 9'241'705'984);
  CHECK(count("gemma2-27b") == 27'227'128'320);
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
        "gb300",     "l40s",      "rtx4090", "mi250x",  "mi300x",       "cpu",          "a800",
        "b300",      "mi325x",    "mi350x",  "mi355x"}) {
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
    CHECK(c.device.memory.v <= 320'000'000'000);
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

}  // namespace
}  // namespace lockstep
