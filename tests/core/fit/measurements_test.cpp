#include "core/fit/measurements.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;

namespace {

const std::string kScenario = R"([model]
preset = "gpt2-tiny"
layers = 2
hidden = 16
heads = 2
[training]
local_batch_size = 2
seq_len = 8
)";

StepMeasurements read(const TemporaryFolder& folder, const std::string& csv) {
  const auto table = parse_csv(csv, folder / "rows.csv");
  REQUIRE(table.ok());
  return read_step_measurements(*table, {});
}

std::vector<std::string> messages(const StepMeasurements& measurements) {
  std::vector<std::string> texts;
  for (const Error& error : measurements.errors) texts.push_back(to_string(error));
  return texts;
}

}  // namespace

TEST_CASE("a table of scenarios and step times is read, with what each row sets", "[fit]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.toml", kScenario);
  const StepMeasurements m =
      read(folder,
           "scenario,step_ms,set,name,source,fit\n"
           "a.toml,12.5,,,,\n"
           "a.toml,20,training.local_batch_size=4 training.seq_len=4,long,mine,no\n");
  REQUIRE(m.errors.empty());
  REQUIRE(m.rows.size() == 2);
  CHECK(m.rows[0].name == "a.toml");
  CHECK(m.rows[0].group == "a.toml");
  CHECK(m.rows[0].step.v == Approx(0.0125));
  CHECK(m.rows[0].fitted);
  CHECK(m.rows[1].name == "long");
  CHECK(m.rows[1].group == "mine");
  CHECK(!m.rows[1].fitted);
  CHECK(m.rows[1].scenario.training.local_batch_size == 4);
  CHECK(m.rows[1].scenario.training.seq_len == 4);
}

TEST_CASE("every fault of a table of step times has its line and column", "[fit]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.toml", kScenario);
  write_bytes(folder / "sweep.toml",
              kScenario + "[sweep]\n\"training.local_batch_size\" = [1, 2]\n");
  const std::string file = folder / "rows.csv";
  const StepMeasurements m = read(folder,
                                  "scenario,step_ms,fit\n"
                                  "a.toml,fast,\n"
                                  "none.toml,1,\n"
                                  "sweep.toml,1,\n"
                                  "a.toml,,\n"
                                  "a.toml,1,maybe\n");
  const std::vector<std::string> errors = messages(m);
  REQUIRE(errors.size() == 5);
  CHECK_THAT(errors[0], ContainsSubstring(file + ":2:8: 'step_ms' is a number above 0"));
  CHECK_THAT(errors[1], ContainsSubstring("none.toml"));
  CHECK_THAT(errors[2], ContainsSubstring(file + ":4:1: sweep.toml has a [sweep] of 2 points"));
  CHECK_THAT(errors[3], ContainsSubstring(file + ":5:8: 'step_ms' is empty"));
  CHECK_THAT(errors[4], ContainsSubstring(file + ":6:10: 'fit' is yes, no or empty, got 'maybe'"));
  CHECK_THAT(messages(read(folder, "scenario,step\na.toml,1\n"))[0],
             ContainsSubstring(file + ":1:1: there is no column 'step_ms'"));
}

TEST_CASE("published rows are mapped, and those without a scenario are remarked", "[fit]") {
  const TemporaryFolder folder;
  const std::string heading =
      "id,source,model,hidden,layers,heads,seq,hw,gpus,tp,pp,dp,micro_batch,global_batch_seqs,"
      "precision,iter_time_s,notes,fit\n";
  const StepMeasurements m =
      read(folder, heading +
                       "t-1,s,GPT,1024,4,16,512,A100,8,1,1,8,1,8,bf16,1,,\n"
                       "t-2,s,GPT,1024,4,16,512,A100,8,1,1,8,1,8,bf16,1,,no\n"
                       "t-3,s,GPT,1024,4,16,512,XPU,8,1,1,8,1,8,bf16,1,,\n"
                       "t-4,s,GPT,1024,4,16,512,A100,8,1,1,8,1,8,bf16,,,\n");
  REQUIRE(m.errors.empty());
  REQUIRE(m.rows.size() == 2);
  CHECK(m.rows[0].group == "t");
  CHECK(m.rows[0].scenario.cluster.name == "a100-80");
  CHECK(m.rows[0].fitted);
  CHECK(!m.rows[1].fitted);
  CHECK(m.remarks == std::vector<std::string>{"1 row left out: no profile of the card",
                                              "1 row left out: step time not given"});
}

TEST_CASE("a run's folder gives the median of its steps after the first", "[fit]") {
  const TemporaryFolder folder;
  write_bytes(folder / "scenario.toml", kScenario);
  write_bytes(folder / "metrics.jsonl",
              "{\"step\":1,\"time\":9.0}\n{\"step\":2,\"time\":0.3}\n"
              "{\"step\":3,\"time\":0.1}\n{\"step\":4,\"time\":0.2}\n");
  const StepMeasurements m = read_run_measurement(folder.path.string(), {});
  REQUIRE(m.errors.empty());
  CHECK(m.rows[0].step.v == Approx(0.2));
  CHECK(m.rows[0].name == folder.path.filename().string());
  CHECK(read_run_measurement(folder.path.string() + "/", {}).rows[0].name == m.rows[0].name);
  CHECK(m.rows[0].scenario.model.layers == 2);
}

TEST_CASE("a folder that is no measured run is refused with what to do", "[fit]") {
  const TemporaryFolder folder;
  const auto message = [&] {
    const StepMeasurements m = read_run_measurement(folder.path.string(), {});
    REQUIRE(m.errors.size() == 1);
    CHECK(m.errors[0].kind == ErrorKind::InvalidSpec);
    return m.errors[0].message;
  };
  CHECK_THAT(message(), ContainsSubstring("has no scenario.toml"));
  write_bytes(folder / "scenario.toml", kScenario);
  CHECK_THAT(message(), ContainsSubstring("only runs on a real backend have them"));
  write_bytes(folder / "metrics.jsonl", "{\"step\":1,\"time\":9.0}\n");
  CHECK_THAT(message(), ContainsSubstring("run it with --steps 3 or more"));
}
