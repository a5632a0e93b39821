#include "core/scenario/scenario_file.hpp"

#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

LoadedScenario parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "one.toml", overrides);
}

Scenario parse_one(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const LoadedScenario loaded = parse(text, overrides);
  for (const Error& error : loaded.errors) FAIL_CHECK(to_string(error));
  REQUIRE(loaded.points.size() == 1);
  return loaded.points.front().scenario;
}

const std::string kTiny = "[model]\npreset = \"gpt2-tiny\"\n";

TEST_CASE("the scenario of a schedule study reads as it is written", "[core][scenario]") {
  const Scenario s = parse_one(R"(
[model]
preset = "synthetic"
[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatches = 8
pipeline_parallel_virtual_stages = 1
[costs]
forward = 10.0
backward_input = 12.0
backward_weight = [1, 2.5, 3, 4]
p2p = 1.0
)");
  CHECK(s.model.architecture == Architecture::Synthetic);
  CHECK(s.strategy.num_stages() == 4);
  CHECK(s.num_microbatches() == 8);
  CHECK(s.microbatch_size() == 1);
  REQUIRE(s.costs);
  CHECK(s.costs->forward == std::vector<double>{10.0});
  CHECK(s.costs->backward_weight == std::vector<double>{1, 2.5, 3, 4});
  CHECK(s.costs->p2p == 1.0);
}

TEST_CASE("one sequence per microbatch unless a batch is given", "[core][scenario]") {
  const std::string text = kTiny + "[parallelism]\npipeline_parallel_microbatches = 4\n";
  CHECK(parse_one(text).training.local_batch_size == 4);
  CHECK(parse_one(text, {"training.local_batch_size=8"}).microbatch_size() == 2);
}

TEST_CASE("the sequence never exceeds the model's table by default", "[core][scenario]") {
  CHECK(parse_one(kTiny).training.seq_len == 128);
  CHECK(parse_one("[model]\npreset = \"gpt3-175b\"\n").training.seq_len == 1024);
}

TEST_CASE("sizes that follow from a given size are derived", "[core][scenario]") {
  const ModelSpec wide = parse_one(kTiny + "hidden = 128\n").model;
  CHECK(wide.head_dim == 32);
  CHECK(wide.ffn_hidden == 512);
  const ModelSpec more_heads = parse_one(kTiny + "heads = 8\n").model;
  CHECK(more_heads.kv_heads == 8);
  CHECK(more_heads.head_dim == 8);
  const ModelSpec llama =
      parse_one("[model]\npreset = \"llama2-7b\"\nhidden = 5120\nheads = 40\n").model;
  CHECK(llama.ffn_hidden == 13824);  // as in Llama-2 13B
  const ModelSpec custom =
      parse_one(
          "[model]\narchitecture = \"gpt2\"\nlayers = 2\nhidden = 32\nheads = 2\nvocab = 50\n"
          "[training]\nseq_len = 17\n")
          .model;
  CHECK(custom.name == "custom");
  CHECK(custom.kv_heads == 2);
  CHECK(custom.ffn_hidden == 128);
  CHECK(custom.max_seq_len == 17);
  CHECK(custom.tied_embeddings);
}

TEST_CASE("data_parallel_shard_degree = -1 takes what the other degrees leave",
          "[core][scenario]") {
  const Scenario s = parse_one(
      "[model]\npreset = \"gpt2-124m\"\n[cluster]\npreset = \"h100\"\n"
      "nodes = 2\n[parallelism]\ndata_parallel_shard_degree = -1\n"
      "pipeline_parallel_degree = 4\n");
  CHECK(s.strategy.data_parallel_shard_degree == 4);
  CHECK(s.strategy.world_size() == 16);
}

TEST_CASE("an override wins over the file, the last override over the first", "[core][scenario]") {
  const Scenario s = parse_one(kTiny + "[training]\nsteps = 3\n",
                               {"training.steps=5", "training.steps = 7", "model.preset=llama-tiny",
                                "training.dtype=float64", "training.dataset=2024",
                                "cluster.device.memory_gb=3.5", "name=a=b"});
  CHECK(s.training.steps == 7);
  CHECK(s.model.name == "llama-tiny");
  CHECK(s.training.dtype == DType::F64);
  CHECK(s.training.dataset == "2024");
  CHECK(s.cluster.device.memory.v == 3'500'000'000);
  CHECK(s.name == "a=b");
}

TEST_CASE("an override names a preset without quotes, whatever it looks like", "[core][scenario]") {
  for (const char* name : {"5", "[]", "true"}) {
    for (const std::string section : {"model", "cluster", "framework"}) {
      const LoadedScenario loaded = parse_scenario("[model]\npreset = \"gpt2-tiny\"\n", "a.toml",
                                                   {section + ".preset=" + name});
      INFO(section << " " << name);
      REQUIRE(loaded.errors.size() == 1);
      CHECK(loaded.errors[0].message.find("unknown") != std::string::npos);
    }
  }
}

TEST_CASE("an override of the profile replaces the preset, and the other way round",
          "[core][scenario]") {
  const TemporaryFolder folder;
  const std::string text = "[model]\npreset = \"gpt2-tiny\"\n[cluster]\npreset = \"cpu\"\n";
  const LoadedScenario plain = parse_scenario(text, folder / "s.toml", {});
  REQUIRE(plain.ok());
  ClusterSpec cluster = plain.points[0].scenario.cluster;
  cluster.name = "mine";
  write_bytes(folder / "mine.toml", print_cluster_profile(cluster));
  const LoadedScenario profiled =
      parse_scenario(text, folder / "s.toml", {"cluster.profile=mine.toml"});
  REQUIRE(profiled.ok());
  CHECK(profiled.points[0].scenario.cluster.device == cluster.device);
  const LoadedScenario back =
      parse_scenario("[model]\npreset = \"gpt2-tiny\"\n[cluster]\nprofile = \"mine.toml\"\n",
                     folder / "s.toml", {"cluster.preset=h100"});
  REQUIRE(back.ok());
  CHECK(back.points[0].scenario.cluster.name == "h100");
}

TEST_CASE("a sweep is the product of its lists, the last varying fastest", "[core][scenario]") {
  const std::string text = kTiny +
                           "[sweep]\n\"training.steps\" = [1, 2]\n"
                           "parallelism.pipeline_parallel_schedule = [\"GPipe\", \"1F1B\"]\n";
  const LoadedScenario loaded = parse(text);
  REQUIRE(loaded.ok());
  REQUIRE(loaded.points.size() == 4);
  CHECK(loaded.points[1].label == "training.steps=1 parallelism.pipeline_parallel_schedule=1F1B");
  CHECK(loaded.points[1].scenario.training.steps == 1);
  CHECK(loaded.points[2].scenario.training.steps == 2);
  CHECK(loaded.points[2].scenario.strategy.pipeline_parallel_schedule == PipelineSchedule::GPipe);

  const LoadedScenario pinned = parse(text, {"training.steps=9"});
  REQUIRE(pinned.points.size() == 2);  // an override takes its key out of the sweep
  CHECK(pinned.points[0].label == "parallelism.pipeline_parallel_schedule=GPipe");
  CHECK(pinned.points[0].scenario.training.steps == 9);
}

TEST_CASE("what a sweep expects of a value is expected of it when an override gives it alone",
          "[core][scenario]") {
  const std::string text = kTiny +
                           "[sweep]\n\"what_if.bandwidth_factor\" = [1.0, 2.0]\n"
                           "\"parallelism.pipeline_parallel_schedule\" = [\"GPipe\", \"1F1B\"]\n"
                           "[expect]\nmfu = { value = [0.1, 0.2, 0.3, 0.4], relative = 0.5 }\n"
                           "step_time_s = [11, 12, 21, 22]\nbubble_fraction = 7\n";
  const auto expected = [](const LoadedScenario& loaded, std::size_t point) {
    std::vector<double> values;
    for (const Expectation& e : loaded.points[point].scenario.expect) values.push_back(e.value);
    return values;
  };
  const LoadedScenario faster = parse(text, {"what_if.bandwidth_factor=2"});
  REQUIRE(faster.points.size() == 2);
  CHECK(expected(faster, 0) == std::vector<double>{0.3, 21, 7});
  CHECK(expected(faster, 1) == std::vector<double>{0.4, 22, 7});
  CHECK(faster.warnings.empty());
  const LoadedScenario one =
      parse(text, {"parallelism.pipeline_parallel_schedule=1F1B", "what_if.bandwidth_factor=1"});
  REQUIRE(one.points.size() == 1);
  CHECK(expected(one, 0) == std::vector<double>{0.2, 12, 7});
}

TEST_CASE("of a value that a sweep does not have, its lists expect nothing, and a warning says so",
          "[core][scenario]") {
  const std::string text = kTiny +
                           "[sweep]\n\"what_if.bandwidth_factor\" = [1.0, 2.0]\n"
                           "[expect]\nmfu = { value = [0.1, 0.2], relative = 0.5 }\n"
                           "step_time_s = [11, 12]\nbubble_fraction = 7\n";
  const LoadedScenario loaded = parse(text, {"what_if.bandwidth_factor=3"});
  REQUIRE(loaded.points.size() == 1);
  REQUIRE(loaded.points[0].scenario.expect.size() == 1);
  CHECK(loaded.points[0].scenario.expect[0].key == "bubble_fraction");
  REQUIRE(loaded.warnings.size() == 1);
  CHECK(to_string(loaded.warnings[0]) ==
        "--set: the sweep of 'what_if.bandwidth_factor' has no such value: lists of expected "
        "values are not checked (--set what_if.bandwidth_factor=3)");
  // A list that has the wrong length is a fault whatever --set says.
  CHECK_FALSE(parse(text + "\"losses.0\" = [1, 2, 3]\n", {"what_if.bandwidth_factor=3"}).ok());
}

TEST_CASE("sweeping a list or a nested key works like writing it", "[core][scenario]") {
  const LoadedScenario loaded =
      parse(kTiny +
            "[parallelism]\npipeline_parallel_degree = 2\n[sweep]\n"
            "\"parallelism.pipeline_parallel_layers_per_stage\" = [[1, 3], [2, 2]]\n"
            "\"cluster.intra_node.bandwidth_gb_s\" = [1, 2]\n");
  REQUIRE(loaded.points.size() == 4);
  CHECK(loaded.points[2].scenario.strategy.pipeline_parallel_layers_per_stage ==
        std::vector<int>{2, 2});
  CHECK(loaded.points[3].scenario.cluster.intra_node.bandwidth.v == 2e9);
  CHECK(loaded.points[3].scenario.cluster.inter_node.bandwidth.v == 1.25e9);  // the preset's
}

TEST_CASE("expectations know their form and their line", "[core][scenario]") {
  const Scenario s = parse_one(kTiny +
                               "[expect]\nstep_time_s = 57\nlosses.0 = { value = 5.5, "
                               "relative = 0.01 }\n\"mfu\" = { min = 0.1, max = 0.9 }\n");
  REQUIRE(s.expect.size() == 3);
  CHECK(s.expect[0].key == "step_time_s");
  CHECK(s.expect[0].relative == 1e-9);
  CHECK(s.expect[0].where == SourceSpan{"one.toml", 4, 1});
  CHECK(s.expect[1].key == "losses.0");
  CHECK(s.expect[1].relative == 0.01);
  CHECK(s.expect[1].where.line == 5);
  CHECK(s.expect[2].min == 0.1);
  CHECK(s.expect[2].max == 0.9);
}

TEST_CASE("files that a scenario names are found from its folder", "[core][scenario]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "lockstep_scenario_files";
  fs::create_directories(folder / "sub");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  write("config.json", R"({"model_type": "mistral", "hidden_size": 64, "intermediate_size": 160,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 256, "sliding_window": 256, "attention_dropout": 0.1})");
  ClusterSpec cluster = parse_one(kTiny + "[cluster]\npreset = \"h200\"\n").cluster;
  cluster.name = "measured";
  cluster.device.launch_overhead.v = 1.25e-6;
  write("measured.toml", print_cluster_profile(cluster));
  write("sub/one.toml",
        "[model]\nhf_config = \"../config.json\"\n[cluster]\nprofile = \"../measured.toml\"\n"
        "nodes = 3\n[training]\nseq_len = 256\n");
  const std::string path = (folder / "sub" / "one.toml").string();
  const LoadedScenario loaded = load_scenario(path, {});
  for (const Error& error : loaded.errors) FAIL_CHECK(to_string(error));
  REQUIRE(loaded.points.size() == 1);
  const Scenario& s = loaded.points[0].scenario;
  CHECK(s.directory == (folder / "sub").string());
  CHECK(s.model.kv_heads == 2);
  CHECK(s.cluster.nodes == 3);
  cluster.nodes = 3;
  CHECK(s.cluster == cluster);
  // Of a dropout there is a warning, unless the scenario says whether to train with it.
  REQUIRE(loaded.warnings.size() == 1);
  CHECK(to_string(loaded.warnings[0]).find("give training.attention_dropout = 0.1") !=
        std::string::npos);
  for (const char* said : {"training.attention_dropout=0.1", "training.attention_dropout=0.0"}) {
    CHECK(load_scenario(path, {said}).warnings.empty());
  }

  const LoadedScenario longer = load_scenario(path, {"training.seq_len=512"});
  REQUIRE(longer.ok());  // the model's window is one of attention
  CHECK(longer.points[0].scenario.model.window_of(0) == 256);
  fs::remove_all(folder);
}

TEST_CASE("without a type, a device with units for bfloat16 trains in it over float32 masters",
          "[core][scenario]") {
  const auto types = [](const std::string& cluster, const std::vector<std::string>& set = {}) {
    const LoadedScenario loaded = parse_scenario(
        "[model]\npreset = \"gpt2-tiny\"\n[cluster]\npreset = \"" + cluster + "\"\n", "types", set);
    if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
    const TrainingSpec& t = loaded.points.front().scenario.training;
    return std::pair{t.dtype, t.param_dtype()};
  };
  CHECK(types("a100-80") == std::pair{DType::F32, DType::BF16});
  CHECK(types("v100") == std::pair{DType::F32, DType::F32});  // has none
  CHECK(types("cpu") == std::pair{DType::F32, DType::F32});
  CHECK(types("a100-80", {"training.dtype=float32"}) == std::pair{DType::F32, DType::F32});
  CHECK(types("a100-80", {"training.mixed_precision_param=float32"}) ==
        std::pair{DType::F32, DType::F32});
}

}  // namespace
}  // namespace lockstep
