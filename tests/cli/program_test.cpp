// Tests `lockstep run` of a program's text.
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/process_runs.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using test::kTiny;
using test::lockstep;

/// kTiny as a scenario and as the text of its program.
struct Files {
  Files() {
    write_bytes(scenario, kTiny);
    write_bytes(program, lockstep({"show", "program", scenario}).out);
  }
  TemporaryFolder folder;
  std::string scenario = folder / "s.toml", program = folder / "p.program";
};

}  // namespace

TEST_CASE("a program's text trains as its scenario does: losses, checkpoints, report", "[cli]") {
  const Files files;
  const std::string a = files.folder / "a", b = files.folder / "b";
  const auto of_scenario =
      lockstep({"run", files.scenario, "--backend", "cpu", "--quiet", "--json", "--out", a});
  const auto of_program = lockstep({"run", files.program, "--backend", "cpu", "--quiet", "--json",
                                    "--checkpoint-every", "3", "--out", b});
  INFO(of_program.err);
  REQUIRE(of_scenario.exit_code == 0);
  REQUIRE(of_program.exit_code == 0);
  CHECK(test::metrics(a) == test::metrics(b));
  for (const char* name : {"/checkpoints/step-3/model.safetensors",
                           "/checkpoints/step-6/model.safetensors", "/program.txt"}) {
    CHECK(read_bytes(a + name) == read_bytes(b + name));
    CHECK_FALSE(read_bytes(b + name).empty());
  }
  const json x = json::parse(of_scenario.out), y = json::parse(of_program.out);
  for (const char* key : {"program_hash", "model", "cluster", "world_size", "losses", "grad_norms",
                          "model_flops_per_step", "peak_memory_bytes"}) {
    CHECK(x.at(key) == y.at(key));
  }
}

TEST_CASE("a program's text is simulated to its scenario's report, on the scenario's cluster",
          "[cli]") {
  const Files files;
  const auto of_scenario = lockstep({"run", files.scenario, "--json"});
  CHECK(lockstep({"run", files.program, "--json", "--cluster", files.scenario}).out ==
        of_scenario.out);
  // Without --cluster: the preset that a scenario has without [cluster].
  CHECK(lockstep({"run", files.program, "--json"}).out == of_scenario.out);
  const auto elsewhere = lockstep({"run", files.program, "--json", "--cluster", "h100"});
  CHECK(json::parse(elsewhere.out).at("cluster") == "h100");
  CHECK(json::parse(elsewhere.out).at("step_time_s") !=
        json::parse(of_scenario.out).at("step_time_s"));
}

TEST_CASE("a run folder of a program is read by report, compare and --resume", "[cli]") {
  const Files files;
  const std::string out = files.folder / "out", whole = files.folder / "whole";
  const std::vector<std::string> run = {"run",     files.program,        "--backend", "cpu",
                                        "--quiet", "--checkpoint-every", "3"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = run;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lockstep(arguments);
  };
  REQUIRE(with({"--out", whole}).exit_code == 0);
  REQUIRE(with({"--out", out, "--steps", "3"}).exit_code == 0);
  const auto resumed = with({"--out", out, "--resume", out});
  INFO(resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK(test::metrics(out) == test::metrics(whole));
  CHECK(read_bytes(out + "/checkpoints/step-6/model.safetensors") ==
        read_bytes(whole + "/checkpoints/step-6/model.safetensors"));

  const auto report = lockstep({"report", out});
  CHECK(report.exit_code == 0);
  CHECK_THAT(report.out, ContainsSubstring("gpt2-tiny on cpu, 4 ranks, cpu backend"));
  const auto compared = lockstep({"compare", out, whole});
  CHECK(compared.exit_code == 0);
  // A finished folder is a run's, so another run may take it; any other folder is left alone.
  CHECK(lockstep({"run", files.program, "--out", files.folder.path.string()}).exit_code == 2);
}

TEST_CASE("a file is a program by its name or by its first word", "[cli]") {
  const Files files;
  const std::string text = read_bytes(files.program);
  write_bytes(files.folder / "program.txt", "# edited\n\n" + text);
  CHECK(lockstep({"run", files.folder / "program.txt", "--json"}).out ==
        lockstep({"run", files.program, "--json"}).out);
  write_bytes(files.folder / "empty.program", kTiny);
  CHECK_THAT(lockstep({"run", files.folder / "empty.program"}).err,
             ContainsSubstring("empty.program:1:1: expected \"lockstep_program\""));
}

TEST_CASE("what a program's text cannot do ends with 2 and says what to do", "[cli]") {
  const Files files;
  std::string unsound = read_bytes(files.program);
  const std::size_t wait = unsound.find(" after=%");
  unsound.erase(wait, unsound.find(' ', wait + 1) - wait);
  write_bytes(files.folder / "unsound.program", unsound);
  std::string large = read_bytes(files.program);
  const std::size_t arena = large.find(" arena=") + 7;
  large.insert(arena, "1000000");
  write_bytes(files.folder / "large.program", large);
  const struct {
    std::vector<std::string> arguments;
    int exit_code;
    const char* message;
  } cases[] = {
      {{files.program, "--set", "training.steps=3"}, 2, "is a program: change its text"},
      {{files.scenario, "--cluster", "h100"}, 2, "in a scenario it is cluster.preset"},
      {{files.scenario, "--data", "text"}, 2, "in a scenario it is training.dataset"},
      {{files.scenario, "--checkpoint-every", "2"}, 2, "in a scenario it is checkpoint.interval"},
      {{files.program, "--cluster", "h10"}, 2, "did you mean 'h100'?"},
      {{files.program, "--backend", "cpu", "--data", "no-such-text"}, 2, "no-such-text"},
      {{files.folder / "missing.program"}, 2, "missing.program: No such file"},
      {{files.folder / "unsound.program"}, 2, "does not wait for"},
      {{files.folder / "large.program"}, 3, "GB, its device has"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments = {"run"};
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    const auto o = lockstep(arguments);
    INFO(o.err);
    CHECK(o.exit_code == c.exit_code);
    CHECK_THAT(o.err, ContainsSubstring(c.message));
    CHECK(o.out.empty());
  }
}

TEST_CASE("--allow replicas runs a program whose replicas keep weights of their own", "[cli]") {
  const TemporaryFolder folder;
  const std::string program = LOCKSTEP_SOURCE_DIR "/tests/cli/gossip.program";
  const auto refused = lockstep({"verify", program});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("makes no term of the mean over replicas") &&
                              ContainsSubstring("--allow replicas leaves it unproven"));
  const auto allowed = lockstep({"verify", program, "--allow", "replicas"});
  CHECK(allowed.exit_code == 0);
  CHECK_THAT(allowed.out, ContainsSubstring("sound, as far as it is proven"));
  CHECK_THAT(allowed.err, ContainsSubstring("note: not proven: that ops of phase S leave"));

  const std::string out = folder / "out";
  const auto run = lockstep({"run", program, "--allow", "replicas", "--backend", "cpu", "--quiet",
                             "--steps", "3", "--checkpoint-every", "3", "--out", out});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.err, ContainsSubstring("note: not proven:"));
  // Tables of all replicas are saved: the first one's as the model, the others' beside it.
  const std::string saved = out + "/checkpoints/step-3/";
  CHECK(read_bytes(saved + "model.safetensors").find("\"table\"") != std::string::npos);
  const std::string others = read_bytes(saved + "optimizer.safetensors");
  for (const char* replica : {"\"replica1.table\"", "\"replica3.table\""}) {
    CHECK(others.find(replica) != std::string::npos);
  }
  CHECK(lockstep({"verify", program, "--allow", "everything"}).exit_code == 2);
}

}  // namespace lockstep
