#include "core/handover/handover.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/scenario/scenario_file.hpp"
#include "core/scenario/shipped.hpp"
#include "tests/catch.hpp"
#include "tests/core/handover/scenarios.hpp"

namespace lockstep {
namespace {

Scenario scenario(const std::string& text, const std::vector<std::string>& set = {}) {
  const LoadedScenario loaded = parse_scenario(text, "a.toml", set);
  INFO((loaded.ok() ? "" : to_string(loaded.errors.front())));
  REQUIRE(loaded.ok());
  return loaded.points.front().scenario;
}

Handover of(std::string_view trainer, const Scenario& s) {
  const Result<Handover> plan = hand_over(trainer, s);
  REQUIRE(plan.ok());
  return *plan;
}

bool has_line(const std::string& text, const std::string& line) {
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    if (one == line) return true;
  }
  return false;
}

TEST_CASE("Megatron-LM gets degrees, batch, shape and recomputation", "[core][handover]") {
  const Handover h = of("megatron", scenario(k70b, {"framework.overlaps_products=false"}));
  for (const char* line : {"--tensor-model-parallel-size 8",
                           "--sequence-parallel",
                           "--pipeline-model-parallel-size 4",
                           "--num-virtual-stages-per-pipeline-rank 2",
                           "--context-parallel-size 1",
                           "--use-distributed-optimizer",
                           "--micro-batch-size 1",
                           "--global-batch-size 32",
                           "--num-layers 80",
                           "--hidden-size 8192",
                           "--ffn-hidden-size 28672",
                           "--num-attention-heads 64",
                           "--group-query-attention",
                           "--num-query-groups 8",
                           "--seq-length 4096",
                           "--vocab-size 128256",
                           "--tokenizer-type NullTokenizer",
                           "--mock-data",
                           "--swiglu",
                           "--normalization RMSNorm",
                           "--bf16",
                           "--untie-embeddings-and-output-weights",
                           "--recompute-granularity full"}) {
    INFO(line << "\n" << h.text);
    CHECK(has_line(h.text, line));
  }
  CHECK(h.launch == "torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py $(< FILE)");
  CHECK(h.unsaid.empty());

  const Handover other =
      of("megatron", scenario(k70b, {"framework.overlaps_products=false",
                                     "parallelism.pipeline_parallel_schedule=ZB-H1",
                                     "parallelism.pipeline_parallel_virtual_stages=1"}));
  REQUIRE(other.unsaid.size() == 1);
  CHECK_THAT(other.unsaid.front(), ContainsSubstring("ZB-H1"));
}

TEST_CASE("torchtitan gets a TOML file that is a scenario's but for what it lacks",
          "[core][handover]") {
  const Handover h = of("torchtitan", scenario(k70b, {"framework.preset=torchtitan"}));
  for (const char* line :
       {"flavor = \"70B\"", "tensor_parallel_degree = 8", "pipeline_parallel_degree = 4",
        "pipeline_parallel_schedule = \"Interleaved1F1B\"", "pipeline_parallel_microbatch_size = 1",
        "pipeline_parallel_layers_per_stage = 10", "pipeline_parallel_first_stage_less_layers = 0",
        "local_batch_size = 16", "global_batch_size = 32", "seq_len = 4096", "mode = \"full\"",
        "data_parallel_replicate_degree = 2", "data_parallel_shard_degree = 1"}) {
    INFO(line << "\n" << h.text);
    CHECK(has_line(h.text, line));
  }
  REQUIRE(h.unsaid.size() == 1);  // it has no stage 1
  CHECK_THAT(h.unsaid.front(), ContainsSubstring("zero_stage = 1"));
  // What both have is read back as it was: no key of [parallelism] but its own is unknown here.
  const Scenario sharded = scenario(k70b, {"parallelism.zero_stage=3"});
  CHECK(of("torchtitan", sharded).unsaid.empty());
  CHECK(has_line(of("torchtitan", sharded).text, "data_parallel_shard_degree = 2"));

  const Handover uneven = of("torchtitan", scenario(R"([model]
preset = "gpt2-tiny"
layers = 3
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_layers_per_stage = [1, 2]
)"));
  CHECK(has_line(uneven.text,
                 "module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], "
                 "[\"layers.1\", \"layers.2\", \"norm\", \"output\"]]"));
}

TEST_CASE("moments in bfloat16 are Megatron-LM's alone, in 8 bits nobody's", "[core][handover]") {
  const auto names_moments = [](std::string_view trainer, const char* type) {
    const std::string key = "optimizer.state_dtype";
    const std::vector<std::string> unsaid = of(trainer, scenario(k70b, {key + "=" + type})).unsaid;
    return std::any_of(unsaid.begin(), unsaid.end(),
                       [&](const std::string& what) { return what.starts_with(key); });
  };
  for (const char* trainer : {"torchtitan", "megatron", "deepspeed"}) {
    INFO(trainer);
    CHECK(names_moments(trainer, "uint8"));
    CHECK(names_moments(trainer, "bfloat16") == (std::string_view(trainer) != "megatron"));
    CHECK_FALSE(names_moments(trainer, "default"));
  }
  const Handover h = of("megatron", scenario(k70b, {"optimizer.state_dtype=bfloat16"}));
  CHECK_THAT(h.text, ContainsSubstring("--exp-avg-dtype bf16"));
  CHECK_THAT(h.text, ContainsSubstring("--exp-avg-sq-dtype bf16"));
}

TEST_CASE("Megatron-LM has biases of a router beside sigmoids alone", "[core][handover]") {
  const std::string text =
      "[model]\npreset = \"mixtral-8x7b\"\nrouter_bias_update_rate = 0.001\n"
      "[training]\nseq_len = 4096\n[cluster]\npreset = \"h100\"\n";
  const Handover h = of("megatron", scenario(text, {"model.router_score=sigmoid"}));
  CHECK(has_line(h.text, "--moe-router-score-function sigmoid"));
  CHECK(has_line(h.text, "--moe-router-enable-expert-bias"));
  CHECK(has_line(h.text, "--moe-router-bias-update-rate 0.001"));
  const auto names = [](const Handover& other, std::string_view key) {
    return std::any_of(other.unsaid.begin(), other.unsaid.end(),
                       [&](const std::string& what) { return what.starts_with(key); });
  };
  CHECK_FALSE(names(h, "model.router_bias_update_rate"));
  CHECK(names(of("megatron", scenario(text, {})), "model.router_bias_update_rate"));
  CHECK(names(of("megatron", scenario(text, {"model.router_imbalance=1.5"})),
              "model.router_imbalance"));
}

TEST_CASE("Megatron-LM drops no token without a capacity, and has room for a rank's",
          "[core][handover]") {
  const std::string text =
      "[model]\npreset = \"mixtral-8x7b\"\ncapacity_factor = 0.0\n"
      "[training]\nseq_len = 4096\n[cluster]\npreset = \"h100\"\n"
      "[parallelism]\ntensor_parallel_degree = 2\nenable_sequence_parallel = true\n"
      "data_parallel_shard_degree = 4\nexpert_parallel_degree = 4\n";
  const auto names = [](const Handover& other, std::string_view key) {
    return std::any_of(other.unsaid.begin(), other.unsaid.end(),
                       [&](const std::string& what) { return what.starts_with(key); });
  };
  const Handover plain = of("megatron", scenario(text, {}));
  CHECK_THAT(plain.text, !ContainsSubstring("capacity-factor"));
  CHECK(has_line(plain.text, "--expert-tensor-parallel-size 1"));
  CHECK(names(plain, "experts that every rank of tensor parallelism holds whole"));
  const Handover divided =
      of("megatron", scenario(text, {"model.expert_rank_capacity_factor=1.5",
                                     "parallelism.expert_tensor_parallel_degree=2"}));
  CHECK(has_line(divided.text, "--moe-expert-rank-capacity-factor 1.5"));
  CHECK(has_line(divided.text, "--expert-tensor-parallel-size 2"));
  CHECK_FALSE(names(divided, "experts that every rank of tensor parallelism holds whole"));
}

TEST_CASE("Megatron-LM rounds up a vocabulary that its ranks do not divide, which is said",
          "[core][handover]") {
  const auto is_said = [](const std::string& vocab) {
    const Handover plan = of("megatron", scenario(k70b, {"model.vocab=" + vocab}));
    return std::any_of(plan.unsaid.begin(), plan.unsaid.end(), [](const std::string& sentence) {
      return sentence.starts_with("model.vocab = ");
    });
  };
  CHECK(is_said("128257"));
  CHECK(!is_said("128256"));
}

TEST_CASE("Megatron-LM has latent attention, and dense blocks before experts", "[core][handover]") {
  const std::string text =
      "[model]\npreset = \"deepseek-v3\"\n[training]\nseq_len = 4096\n"
      "[cluster]\npreset = \"h100\"\n";
  const Handover h = of("megatron", scenario(text, {}));
  for (const char* line : {"--multi-latent-attention", "--q-lora-rank 1536", "--kv-lora-rank 512",
                           "--qk-head-dim 128", "--qk-pos-emb-head-dim 64", "--v-head-dim 128",
                           "--qk-layernorm", "--rope-type rope", "--moe-layer-freq ([0]*3+[1]*58)",
                           "--ffn-hidden-size 18432", "--moe-ffn-hidden-size 2048"}) {
    INFO(line);
    CHECK(has_line(h.text, line));
  }
  CHECK(h.text.find("--kv-channels") == std::string::npos);
  const Handover lite =
      of("megatron",
         scenario(text, {"model.q_lora_rank=0", "model.layers=8", "model.expert_period=2"}));
  CHECK(lite.text.find("--q-lora-rank") == std::string::npos);
  CHECK(has_line(lite.text, "--moe-layer-freq [0,0,0,1,0,1,0,1]"));
}

TEST_CASE("DeepSpeed gets a batch that multiplies out, and buckets in elements",
          "[core][handover]") {
  const Handover h = of("deepspeed", scenario(R"([model]
preset = "gpt2-tiny"
[training]
local_batch_size = 4
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
[parallelism]
data_parallel_shard_degree = 8
zero_stage = 3
fsdp_persistence_threshold = 100000
offload = "optimizer"
)"));
  const auto j = nlohmann::json::parse(h.text);
  CHECK(j.at("train_batch_size") == 64);
  CHECK(j.at("train_batch_size").get<int>() == j.at("train_micro_batch_size_per_gpu").get<int>() *
                                                   j.at("gradient_accumulation_steps").get<int>() *
                                                   8);
  CHECK(j.at("bf16").at("enabled") == true);
  const auto& zero = j.at("zero_optimization");
  CHECK(zero.at("stage") == 3);
  CHECK(zero.at("stage3_param_persistence_threshold") == 100000);
  CHECK(zero.at("offload_optimizer").at("device") == "cpu");
  CHECK(zero.at("reduce_bucket_size") == (25 << 20) / 4);
  REQUIRE(h.unsaid.size() == 1);  // what every script says itself
}

TEST_CASE("Adam with coupled weight decay stays Adam at torchtitan and DeepSpeed",
          "[core][handover]") {
  const auto plan = [](std::string_view trainer, const char* optimizer) {
    return of(trainer, scenario(k70b, {std::string("optimizer.name=") + optimizer})).text;
  };
  CHECK(has_line(plan("torchtitan", "AdamW"), "name = \"AdamW\""));
  CHECK(has_line(plan("torchtitan", "Adam"), "name = \"Adam\""));
  const auto deepspeed = [&](const char* optimizer) {
    return nlohmann::json::parse(plan("deepspeed", optimizer)).at("optimizer");
  };
  CHECK(deepspeed("AdamW").at("type") == "AdamW");
  CHECK(!deepspeed("AdamW").at("params").contains("adam_w_mode"));
  CHECK(deepspeed("Adam").at("type") == "Adam");
  CHECK(deepspeed("Adam").at("params").at("adam_w_mode") == false);
  CHECK(deepspeed("SGD").at("type") == "SGD");
  CHECK(deepspeed("SGD").at("params").contains("momentum"));
}

TEST_CASE("Muon has its own words at Megatron-LM and DeepSpeed, and none at torchtitan",
          "[core][handover]") {
  const std::vector<std::string> set = {
      "optimizer.name=Muon", "optimizer.momentum=0.95", "optimizer.ns_dtype=bfloat16",
      "optimizer.adjust_lr_fn=match_rms_adamw", "parallelism.zero_stage=0"};
  const Handover megatron = of("megatron", scenario(k70b, set));
  for (const char* line :
       {"--optimizer muon", "--muon-momentum 0.95", "--muon-nesterov", "--muon-num-ns-steps 5",
        "--muon-scale-mode spectral", "--muon-extra-scale-factor 0.2", "--muon-tp-mode duplicated",
        "--muon-fp32-matmul-prec medium", "--adam-beta1 0.9"}) {
    INFO(line << "\n" << megatron.text);
    CHECK(has_line(megatron.text, line));
  }
  CHECK_FALSE(has_line(megatron.text, "--use-distributed-optimizer"));
  std::vector<std::string> sharded = set;
  sharded.back() = "parallelism.zero_stage=1";
  CHECK(has_line(of("megatron", scenario(k70b, sharded)).text, "--optimizer dist_muon"));

  const Handover deepspeed =
      of("deepspeed", scenario(k70b, {"optimizer.name=Muon", "optimizer.muon_lr=0.02"}));
  const auto optimizer = nlohmann::json::parse(deepspeed.text).at("optimizer");
  CHECK(optimizer.at("type") == "Muon");
  CHECK(optimizer.at("params").at("muon_lr") == 0.02);
  CHECK(optimizer.at("params").at("adam_lr") == 3e-4);
  CHECK(optimizer.at("params").at("momentum") == 0.9);

  const Handover torchtitan = of("torchtitan", scenario(k70b, set));
  CHECK(std::any_of(torchtitan.unsaid.begin(), torchtitan.unsaid.end(), [](const auto& what) {
    return what == "optimizer.name: it has AdamW and Adam";
  }));
}

TEST_CASE("Adafactor is torch.optim's at DeepSpeed, and the others have none", "[core][handover]") {
  const Scenario s = scenario(
      k70b, {"optimizer.name=Adafactor", "optimizer.relative_step=true", "optimizer.eps_scale=0.01",
             "optimizer.clip_threshold=2", "optimizer.decay_rate=-0.5"});
  const auto optimizer = nlohmann::json::parse(of("deepspeed", s).text).at("optimizer");
  CHECK(optimizer.at("type") == "Adafactor");
  CHECK(optimizer.at("params").at("beta2_decay") == -0.5);
  CHECK(optimizer.at("params").at("d") == 2);
  CHECK(optimizer.at("params").at("eps") == nlohmann::json{1e-30, 0.01});
  CHECK_FALSE(optimizer.at("params").contains("momentum"));
  for (const char* trainer : {"megatron", "torchtitan", "deepspeed"}) {
    const Handover other = of(trainer, s);
    CHECK(std::any_of(other.unsaid.begin(), other.unsaid.end(),
                      [](const auto& what) { return what.starts_with("optimizer.name: "); }));
  }
}

TEST_CASE("Megatron-LM has the dropout of probabilities, torchtitan has none", "[core][handover]") {
  const Scenario s =
      scenario(k70b, {"training.attention_dropout=0.125", "framework.overlaps_products=false"});
  const Handover megatron = of("megatron", s);
  CHECK(has_line(megatron.text, "--attention-dropout 0.125"));
  CHECK(megatron.unsaid.empty());
  const std::vector<std::string> unsaid = of("torchtitan", s).unsaid;
  CHECK(std::any_of(unsaid.begin(), unsaid.end(), [](const std::string& line) {
    return line.find("training.attention_dropout") != std::string::npos;
  }));
}

/// The keys that a trainer of the version named in tests/data/trainer_keys has.
std::set<std::string> keys_of(std::string_view trainer) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR "/tests/data/trainer_keys/") +
                     std::string(trainer) + ".txt");
  std::set<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) keys.insert(line);
  }
  REQUIRE(keys.size() > 50);
  return keys;
}

/// The keys of a JSON object, dotted; what is in "params" is of the optimizer's own choosing.
void add_keys(const nlohmann::json& object, const std::string& prefix,
              std::set<std::string>& keys) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && key != "params") {
      add_keys(value, prefix + key + ".", keys);
    } else {
      keys.insert(prefix + key);
    }
  }
}

/// The keys that an exported text sets.
std::set<std::string> keys_in(std::string_view trainer, const std::string& text) {
  std::set<std::string> keys;
  if (trainer == "deepspeed") {
    add_keys(nlohmann::json::parse(text), "", keys);
    return keys;
  }
  std::istringstream lines(text);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("--")) keys.insert(line.substr(2, line.find(' ') - 2));
    if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1) + ".";
    if (const auto equals = line.find(" = "); equals != std::string::npos && line[0] != '#') {
      keys.insert(section + line.substr(0, equals));
    }
  }
  return keys;
}

TEST_CASE("exports have the keys of the versions for which they are, and no others",
          "[core][handover]") {
  const auto folder = shipped_scenarios();
  for (const std::string_view trainer : kTrainers) {
    const std::set<std::string> known = keys_of(trainer);
    std::set<std::string> unknown, used;
    for (const auto& file : scenario_files(folder)) {
      const LoadedScenario loaded = load_scenario((folder / file).string(), {});
      if (!loaded.ok()) continue;
      for (const SweepPoint& point : loaded.points) {
        const Result<Handover> plan = hand_over(trainer, point.scenario);
        if (!plan.ok()) continue;
        for (const std::string& key : keys_in(trainer, plan->text)) {
          (known.contains(key) ? used : unknown).insert(key);
        }
      }
    }
    INFO(trainer);
    CHECK(unknown == std::set<std::string>{});
    CHECK(used.size() > 10);
  }
  CHECK(keys_of("torchtitan").contains("debug.seed"));  // "training.seed" in 0.2.0
  CHECK_FALSE(keys_of("torchtitan").contains("training.seed"));
}

TEST_CASE(
    "what is recomputed goes to those whose word for it there is, and to others with a remark",
    "[core][handover]") {
  const auto handed = [](const char* trainer, const std::string& option) {
    return of(trainer, scenario(k70b, {"activation_checkpoint.mode=selective",
                                       "activation_checkpoint.selective_ac_option=" + option}));
  };
  const auto is_left = [](const Handover& h) {
    return std::any_of(h.unsaid.begin(), h.unsaid.end(), [](const std::string& line) {
      return line.starts_with("activation_checkpoint.selective_ac_option");
    });
  };
  const Handover same = handed("torchtitan", "torchtitan");
  CHECK(same.text.find("selective_ac_option = \"op\"") != std::string::npos);
  CHECK_FALSE(is_left(same));
  for (const char* option : {"op", "core_attn", "torchtitan,norm"}) {
    CHECK(is_left(handed("torchtitan", option)));
  }
  const Handover modules = handed("megatron", "core_attn,layernorm,mlp");
  CHECK(modules.text.find("--recompute-modules core_attn layernorm mlp\n") != std::string::npos);
  CHECK_FALSE(is_left(modules));
  for (const char* option : {"op", "torchtitan", "2"}) CHECK(is_left(handed("megatron", option)));
}

TEST_CASE("every shipped scenario of a transformer is handed over to all three",
          "[core][handover]") {
  const auto folder = shipped_scenarios();
  int handed = 0;
  for (const auto& file : scenario_files(folder)) {
    const LoadedScenario loaded = load_scenario((folder / file).string(), {});
    if (!loaded.ok()) continue;
    for (const SweepPoint& point : loaded.points) {
      for (const std::string_view trainer : kTrainers) {
        INFO(file << " for " << trainer);
        const Result<Handover> plan = hand_over(trainer, point.scenario);
        const ModelSpec& m = point.scenario.model;
        CHECK(plan.ok() ==
              (m.is_decoder() && !m.is_vision() && m.architecture != Architecture::Synthetic));
        handed += plan.ok();
        if (plan.ok() && trainer == "deepspeed") {
          CHECK(nlohmann::json::parse(plan->text).at("train_batch_size") ==
                point.scenario.global_batch_size());
        }
      }
    }
  }
  CHECK(handed > 60);
}

}  // namespace
}  // namespace lockstep
