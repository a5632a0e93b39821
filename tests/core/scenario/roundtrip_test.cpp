#include <cmath>
#include <random>

#include "core/scenario/scenario_file.hpp"
#include "core/spec/keys/units.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

Scenario parse_one(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const LoadedScenario loaded = parse_scenario(text, "folder/one.toml", overrides);
  for (const Error& error : loaded.errors) FAIL_CHECK(to_string(error));
  REQUIRE(loaded.points.size() == 1);
  return loaded.points.front().scenario;
}

void require_round_trip(const Scenario& scenario) {
  const std::string text = print_scenario(scenario);
  const LoadedScenario again = parse_scenario(text, "folder/one.toml", {});
  INFO(text);
  for (const Error& error : again.errors) FAIL_CHECK(to_string(error));
  REQUIRE(again.points.size() == 1);
  CHECK(again.points.front().scenario == scenario);
  CHECK(print_scenario(again.points.front().scenario) == text);
}

TEST_CASE("a printed scenario parses back equal, for every model on every cluster",
          "[core][scenario]") {
  for (const std::string& model : model_preset_names()) {
    for (const std::string& cluster : cluster_preset_names()) {
      std::string text = "[model]\npreset = \"" + model + "\"\n[cluster]\npreset = \"" + cluster +
                         "\"\nnodes = 2\n";
      if (model == "synthetic") {
        text += "[costs]\nforward = 1.0\nbackward_input = [2.0]\nbackward_weight = 0\n";
      }
      require_round_trip(parse_one(text));
    }
  }
}

TEST_CASE("a printed scenario parses back equal when every key is unusual", "[core][scenario]") {
  const Scenario scenario = parse_one(R"(
name = "quotes \" and \\ and \u00e9 \t\u0001"
[model]
architecture = "llama"
layers = 7
hidden = 96
heads = 6
kv_heads = 2
head_dim = 10
ffn_hidden = 77
vocab = 1009
tied_embeddings = true
norm_eps = 1.5e-7
rope_theta = 12345.678
[training]
seq_len = 33
local_batch_size = 6
global_batch_size = 24
steps = 3
max_norm = 0
dtype = "float64"
seed = -1
dataset = "/data/a b#c.bin"
[optimizer]
lr = 0.1
beta1 = 0
beta2 = 0.999
eps = 1e-300
weight_decay = 0.3333333333333333
[lr_scheduler]
warmup_steps = 2
decay_ratio = 0.8
decay_type = "cosine"
min_lr_factor = 0.01
[parallelism]
data_parallel_shard_degree = 2
zero_stage = 2
pipeline_parallel_degree = 3
pipeline_parallel_schedule = "gpipe"
pipeline_parallel_microbatches = 2
pipeline_parallel_layers_per_stage = [2, 3, 2]
fsdp_reshard_after_forward = "never"
fsdp_prefetch = 0
fsdp_backward_prefetch = 2
fsdp_min_num_params = 100_000_000
fsdp_reshard_degree = 2
fsdp_max_active_stages = 0
accumulate_sharded_gradients = "always"
fsdp_persistence_threshold = 100000
bucket_cap_mb = 0.1
first_bucket_cap_mb = 1e-6
overlap_grad_reduce = false
[checkpoint]
interval = 5
folder = "deep/er"
[what_if]
ideal_network = true
bandwidth_factor = 0.5
straggler_rank = 5
straggler_slowdown = 1.7
[cluster]
preset = "v100-pcie"
name = "ours"
efficiency = []
[cluster.device]
memory_gb = 12.345678901
launch_overhead_us = 0.7
peak_tflops = { float16 = 0.1, float64 = 3 }
[cluster.inter_node]
latency_us = 3.3
[expect]
step_time_s = 57
losses.0 = { value = -0.5, absolute = 1e-3 }
"stage_span_s.3" = { min = 1.0, max = 2 }
mfu = { min = 0.1 }
)");
  CHECK(scenario.training.seed == ~std::uint64_t{0});
  CHECK(scenario.strategy.pipeline_parallel_schedule == PipelineSchedule::GPipe);
  CHECK(scenario.strategy.first_bucket_cap.v == 1);
  CHECK(scenario.strategy.zero_stage == 2);
  CHECK(scenario.strategy.fsdp_min_num_params == 100000000);
  CHECK(scenario.cluster.device.efficiency.empty());
  CHECK(scenario.cluster.device.peaks.size() == 2);
  CHECK(scenario.cluster.device.memory.v == 12345678901);
  REQUIRE(scenario.expect.size() == 4);
  CHECK(scenario.expect[1].key == "losses.0");
  CHECK(scenario.expect[2].key == "stage_span_s.3");
  CHECK(scenario.expect[2].max == 2.0);
  require_round_trip(scenario);
}

TEST_CASE("random numbers survive print and parse to the last bit", "[core][scenario]") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-4, 6);
  const auto number = [&] { return std::pow(10.0, exponent(random)); };
  Scenario scenario = parse_one("[model]\npreset = \"gpt2-tiny\"\n");
  for (int i = 0; i < 300; ++i) {
    scenario.optimizer.lr = number();
    scenario.optimizer.eps = number();
    scenario.what_if.bandwidth_factor = number();
    // Quantities are values that a file can express in its units, as those that were read from one.
    scenario.cluster.device.memory_bandwidth.v = to_si(UnitPrefix::Giga, number());
    scenario.cluster.device.launch_overhead.v = to_si(UnitPrefix::Micro, number());
    scenario.cluster.device.peaks[0].rate.v = to_si(UnitPrefix::Tera, number());
    scenario.cluster.intra_node.bandwidth.v = to_si(UnitPrefix::Giga, number());
    scenario.cluster.inter_node.latency.v = to_si(UnitPrefix::Micro, number());
    scenario.cluster.network.oversubscription = 1 + number();
    scenario.cluster.network.library = CollectiveLibrary::Nccl;
    scenario.cluster.device.memory.v = 1 + static_cast<std::int64_t>(random() >> 14);
    scenario.strategy.bucket_cap.v = 1 + static_cast<std::int64_t>(random() >> 14);
    scenario.training.seed = random();
    scenario.cluster.device.efficiency = {{"gemm", {{{number() * 1e-9}, number()}}}};
    require_round_trip(scenario);
  }
}

TEST_CASE("a relative dataset is printed absolute, from the scenario's folder",
          "[core][scenario]") {
  const Scenario scenario =
      parse_one("[model]\npreset = \"gpt2-tiny\"\n[training]\ndataset = \"../text\"\n");
  CHECK(scenario.training.dataset == "../text");
  CHECK(scenario.directory == "folder");
  const std::string printed = parse_one(print_scenario(scenario)).training.dataset;
  CHECK(printed.front() == '/');
  CHECK(printed.ends_with("/text"));
  CHECK(printed.find("..") == std::string::npos);
  CHECK(printed.find("folder") == std::string::npos);
}

TEST_CASE("a printed cluster profile reads back as the same cluster", "[core][scenario]") {
  for (const std::string& preset : cluster_preset_names()) {
    ClusterSpec cluster =
        parse_one("[model]\npreset = \"gpt2-tiny\"\n[cluster]\npreset = \"" + preset + "\"\n")
            .cluster;
    cluster.device.efficiency.push_back({"adamw", {{{1e-6}, 0.25}, {{2e-6}, 1.5}}});
    const std::string profile = print_cluster_profile(cluster);
    // A profile has the keys of [cluster], so its text is a scenario's section by another name.
    CHECK_THAT(profile, ContainsSubstring("[device]"));
    CHECK_THAT(profile, ContainsSubstring("[[efficiency]]"));
    std::string section = profile;
    for (const char* table :
         {"[device]", "[intra_node]", "[inter_node]", "[network]", "[drives]"}) {
      const std::size_t at = section.find(table);
      REQUIRE(at != std::string::npos);
      section.insert(at + 1, "cluster.");
    }
    for (std::size_t at = 0; (at = section.find("[[efficiency]]", at)) != std::string::npos;) {
      section.insert(at + 2, "cluster.");
    }
    CHECK(parse_one("[model]\npreset = \"gpt2-tiny\"\n[cluster]\n" + section).cluster == cluster);
  }
}

}  // namespace
}  // namespace lockstep
