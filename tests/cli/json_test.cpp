#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::test {
namespace {

TEST_CASE("compare --json has both reports, and what differs between them", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.toml", kSynthetic);
  std::string other = kSynthetic;
  other.replace(other.find("1F1B"), 4, "ZB-H1");
  write_bytes(folder / "b.toml", other);
  const auto compared = lockstep({"compare", folder / "a.toml", folder / "b.toml", "--json"});
  INFO(compared.err);
  REQUIRE(compared.exit_code == 0);
  const auto json = nlohmann::json::parse(compared.out);
  CHECK(std::abs(json["a"]["step_time_s"].get<double>() - 33) < 1e-9);
  CHECK(std::abs(json["b"]["step_time_s"].get<double>() - 27) < 1e-9);
  CHECK(json["same_program"] == false);
  // 1F1B has backward passes of 2 s, ZB-H1 none: their names differ, and the sums do not.
  double a = 0, b = 0;
  for (const auto& kind : json["kinds"]) {
    a += kind["a_s"].get<double>();
    b += kind["b_s"].get<double>();
  }
  CHECK(std::abs(a - 96) < 1e-9);
  CHECK(std::abs(b - 96) < 1e-9);
  CHECK(!json["conclusion"].get<std::string>().empty());
}

TEST_CASE("verify --json counts what is there, and lists faults", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.toml", kTiny);
  const std::string program = lockstep({"show", "program", folder / "a.toml"}).out;
  write_bytes(folder / "a.program", program);
  const auto sound = lockstep({"verify", folder / "a.program", "--json"});
  REQUIRE(sound.exit_code == 0);
  CHECK(nlohmann::json::parse(sound.out)["ranks"] == 4);
  CHECK(nlohmann::json::parse(sound.out)["faults"].empty());
  write_bytes(folder / "b.program", program.substr(0, program.size() / 2));
  const auto cut = lockstep({"verify", folder / "b.program", "--json"});
  CHECK(cut.exit_code == 2);
  CHECK(nlohmann::json::parse(cut.out)["faults"].size() >= 1);
}

nlohmann::json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const auto said = lockstep(arguments);
  INFO(said.err);
  REQUIRE(said.exit_code == 0);
  return nlohmann::json::parse(said.out);
}

TEST_CASE("show --json says what the text says", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "a.toml";
  write_bytes(file, kTiny);
  const auto program = json_of({"show", "program", file});
  CHECK(program["ranks"] == 4);
  std::size_t ops = 0;
  for (const auto& role : program["roles"]) ops += role["ops"].size();
  write_bytes(folder / "a.program", lockstep({"show", "program", file}).out);
  CHECK(json_of({"verify", folder / "a.program"})["ops"] == ops);
  CHECK(json_of({"show", "program", file, "--rank", "3"})["roles"].size() == 1);

  // "pp0: 0F0 0F1 0B0 0B1", word by word.
  std::string text;
  const auto schedule = json_of({"show", "schedule", file});
  for (const auto& rank : schedule["schedule"]) {
    text += "pp" + std::to_string(rank["pp"].get<int>()) + ":";
    for (const auto& a : rank["actions"]) {
      text += " " + std::to_string(a["stage"].get<int>()) + a["phase"].get<std::string>() +
              std::to_string(a["microbatch"].get<int>());
    }
    text += "\n";
  }
  CHECK(text == lockstep({"show", "schedule", file}).out);

  const auto model = json_of({"show", "model", file});
  double layers = 0, tensors = 0;
  for (const auto& layer : model["layers"]) layers += layer["parameters"].get<double>();
  for (const auto& tensor : model["tensors"]) tensors += tensor["elements"].get<double>();
  CHECK(layers == model["parameters"].get<double>());
  CHECK(tensors == model["parameters"].get<double>());

  const auto memory = json_of({"show", "memory", file});
  for (const auto& role : memory["roles"]) {
    std::int64_t sum = 0;
    for (const auto& [kind, bytes] : role["device"]["by_kind"].items()) {
      sum += bytes.get<std::int64_t>();
    }
    CHECK(sum == role["device"]["most_alive_bytes"].get<std::int64_t>());
    CHECK(sum <= role["device"]["arena_bytes"].get<std::int64_t>());
  }
  CHECK(lockstep({"show", "schedule", file, "--json", "--csv"}).exit_code == 2);
}

TEST_CASE("lesson --json has the page's figures and its answers", "[cli]") {
  const auto lesson =
      json_of({"lesson", std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/course/06-pipeline.md"});
  CHECK(!lesson["title"].get<std::string>().empty());
  CHECK(lesson["text"].get<std::string>().find('{') == std::string::npos);
  CHECK(!lesson["questions"].empty());
  for (const auto& question : lesson["questions"]) CHECK(!question["answer"].empty());
}

TEST_CASE("calibrate --json says what the profile says that it wrote", "[cli]") {
  const TemporaryFolder folder;
  const std::string profile = folder / "machine.toml";
  const auto json = json_of({"calibrate", "--backend", "cpu", "--quick", "--out", profile});
  CHECK(json["profile"] == profile);
  std::vector<Error> errors;
  const ClusterSpec cluster = load_cluster(profile, errors);
  REQUIRE(errors.empty());
  const DeviceSpec& device = cluster.device;
  CHECK(json["device"] == device.name);
  CHECK(json["ranks_at_full_rate"] == device.concurrent_ranks);
  CHECK(json["memory_bytes_per_s"].get<double>() > 0);
  REQUIRE(json["peak_flops_per_s"].size() == device.peaks.size());
  for (const PeakRate& peak : device.peaks) {
    CHECK(json["peak_flops_per_s"][std::string(to_string(peak.dtype))].get<double>() ==
          Approx(peak.rate.v).epsilon(1e-9));
  }
  for (const auto& [key, value] : {std::pair("memory_bytes_per_s", device.memory_bandwidth.v),
                                   std::pair("kernel_overhead_s", device.launch_overhead.v),
                                   std::pair("hand_over_s", device.hand_over.v),
                                   std::pair("link_bytes_per_s", cluster.intra_node.bandwidth.v),
                                   std::pair("link_latency_s", cluster.intra_node.latency.v)}) {
    INFO(key);
    CHECK(json[key].get<double>() == Approx(value).epsilon(1e-9));
  }
}

TEST_CASE("export of a plan as JSON is its text, its launch and what it cannot say", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.toml", kTiny);
  const auto plan = json_of({"export", "deepspeed", folder / "a.toml"});
  CHECK(plan["text"] == lockstep({"export", "deepspeed", folder / "a.toml"}).out);
  CHECK(plan["launch"].get<std::string>().starts_with("torchrun"));
  CHECK(!plan["unsaid"].empty());
}

TEST_CASE("a Chakra trace that export writes is run, reported and compared", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "a.toml", prefix = folder / "step";
  write_bytes(file, kTiny);
  const auto written = json_of({"export", "chakra", file, "--out", prefix});
  CHECK(written["ranks"] == 4);
  CHECK(std::filesystem::exists(prefix + ".3.et"));
  CHECK(!std::filesystem::exists(prefix + ".4.et"));
  const auto run = json_of({"run", prefix, "--cluster", "h100"});
  CHECK(run["world_size"] == 4);
  CHECK(run["step_time_s"].get<double>() > 0);
  const auto report = json_of({"report", prefix + ".0.et"});
  CHECK(report["backend"] == "chakra");
  CHECK(report["world_size"] == 4);
  CHECK(lockstep({"run", prefix, "--backend", "cpu"}).exit_code == 2);
  CHECK(lockstep({"run", prefix, "--set", "training.steps=2"}).exit_code == 2);
  CHECK(lockstep({"export", "chakra", file}).exit_code == 2);
  write_bytes(prefix + ".2.et", "no trace");
  CHECK(lockstep({"run", prefix, "--cluster", "h100"}).exit_code == 2);
  CHECK(lockstep({"report", prefix}).exit_code == 2);
}

}  // namespace
}  // namespace lockstep::test
