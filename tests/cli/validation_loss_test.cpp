// The loss of data that are not trained on: what it is, and that it changes nothing.
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::test {
namespace {

std::string lines(int count, int seed) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i * seed % 97) + " of a text\n";
  return text;
}

/// Trains kTiny without its layout, with these keys, and returns the lines of metrics.jsonl.
std::vector<nlohmann::json> metrics_of(const TemporaryFolder& folder, const std::string& name,
                                       const std::vector<std::string>& keys,
                                       const std::vector<std::string>& more = {}) {
  write_bytes(folder / "train.txt", lines(300, 7));
  write_bytes(folder / "held.txt", lines(200, 13));
  write_bytes(folder / "s.toml", kTiny);
  std::vector<std::string> arguments = {"run",   folder / "s.toml", "--backend", "cpu",
                                        "--out", folder / name,     "--quiet"};
  std::vector<std::string> all = {"training.dataset=train.txt", "training.global_batch_size=8",
                                  "validation.dataset=held.txt"};
  all.insert(all.end(), keys.begin(), keys.end());
  for (const std::string& key : all) arguments.insert(arguments.end(), {"--set", key});
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto run = lockstep(arguments);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  std::vector<nlohmann::json> found;
  std::istringstream text(read_bytes(folder / (name + "/metrics.jsonl")));
  for (std::string line; std::getline(text, line);) found.push_back(nlohmann::json::parse(line));
  return found;
}

}  // namespace

TEST_CASE(
    "a validation's loss is the mean of the losses that training on its data would begin with",
    "[cli]") {
  const TemporaryFolder folder;
  // With a learning rate of 0, a training's losses are those of its data. A validation takes them
  // in the order of seed 0.
  const auto trained =
      metrics_of(folder, "a",
                 {"training.dataset=held.txt", "optimizer.lr=0", "training.reshuffle=false",
                  "training.seed=0", "validation.freq=6", "validation.steps=6"});
  REQUIRE(trained.size() == 6);
  double sum = 0;
  for (const auto& line : trained) sum += line.at("loss").get<double>();
  CHECK(trained[5].at("validation_loss").get<double>() == Approx(sum / 6).epsilon(1e-6));
  CHECK(!trained[4].contains("validation_loss"));
}

TEST_CASE("a validation changes nothing of the training, and is the same in every layout",
          "[cli]") {
  const TemporaryFolder folder;
  const std::vector<std::string> often = {"validation.freq=2", "validation.steps=3"};
  const auto with = metrics_of(folder, "with", often);
  const auto without = metrics_of(folder, "without", {"validation.dataset=''"});
  REQUIRE(with.size() == 6);
  for (std::size_t i = 0; i < with.size(); ++i) {
    CHECK(with[i].at("loss") == without[i].at("loss"));
    CHECK(with[i].contains("validation_loss") == (i % 2 == 1));
  }
  const std::string tensors = "/checkpoints/step-6/model.safetensors";
  CHECK(read_bytes(folder / ("with" + tensors)) == read_bytes(folder / ("without" + tensors)));
  auto alone = often;
  for (const char* key : {"pipeline_parallel_degree=1", "pipeline_parallel_microbatches=1",
                          "data_parallel_replicate_degree=1", "data_parallel_shard_degree=2"}) {
    alone.push_back(std::string("parallelism.") + key);
  }
  const auto sharded = metrics_of(folder, "sharded", alone);
  for (const std::size_t i : {1, 3, 5}) {
    CHECK(sharded[i].at("validation_loss").get<double>() ==
          Approx(with[i].at("validation_loss").get<double>()).epsilon(1e-5));
  }
  const auto report = nlohmann::json::parse(read_bytes(folder / "with/report.json"));
  REQUIRE(report.at("validation").size() == 3);
  CHECK(report.at("validation")[2].at("step") == 6);
  CHECK(report.at("validation")[2].at("loss") == with[5].at("validation_loss"));
}

TEST_CASE("validations go on where a run is resumed", "[cli]") {
  const TemporaryFolder folder;
  const std::vector<std::string> often = {"validation.freq=2", "validation.steps=2"};
  const auto whole = metrics_of(folder, "whole", often);
  metrics_of(folder, "parts", often, {"--steps", "3"});
  const auto parts = metrics_of(folder, "parts", often, {"--resume", "auto"});
  REQUIRE(parts.size() == 6);
  for (const std::size_t i : {1, 3, 5}) {
    CHECK(parts[i].at("validation_loss") == whole[i].at("validation_loss"));
  }
}

TEST_CASE("a validation that has no data, or is never due, is refused", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kTiny);
  const auto refusal = [&](const std::string& key) {
    const auto run = lockstep({"run", folder / "s.toml", "--set", key});
    CHECK(run.exit_code == 2);
    return run.err;
  };
  CHECK(refusal("validation.freq=2").find("`lockstep data --validation 0.1`") != std::string::npos);
  CHECK(refusal("validation.dataset=held.txt").find("without validation.freq") !=
        std::string::npos);
  CHECK(refusal("validation.frequency=2").find("freq") != std::string::npos);
}

}  // namespace lockstep::test
