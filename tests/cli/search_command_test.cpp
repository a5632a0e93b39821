#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "core/advice/time_shares.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using test::CommandOutcome;
using test::kSynthetic;
using test::lockstep;

/// A tiny model of the zoo on one node of A100s, written to a file of `folder`.
std::string tiny(const TemporaryFolder& folder, const std::string& preset, int batch, int devices,
                 const std::string& more = "") {
  std::string file = folder / "s.toml";
  write_bytes(file, "[model]\npreset = \"" + preset +
                        "\"\n[training]\nglobal_batch_size = " + std::to_string(batch) +
                        "\n[cluster]\npreset = \"a100-80\"\ndevices_per_node = " +
                        std::to_string(devices) + "\n" + more);
  return file;
}

TEST_CASE("search prints the fastest layouts and writes the first as a scenario", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = tiny(folder, "gpt2-tiny", 16, 4);
  const CommandOutcome table =
      lockstep({"search", file, "--top", "3", "--threads", "2", "--write", folder / "best.toml"});
  INFO(table.err);
  REQUIRE(table.exit_code == 0);
  CHECK_THAT(table.out, ContainsSubstring("16 sequences of") && ContainsSubstring("tokens/s"));
  const CommandOutcome json = lockstep({"search", file, "--json", "--finalists", "4"});
  REQUIRE(json.exit_code == 0);
  const auto answer = nlohmann::json::parse(json.out);
  const auto& list = answer["found"];
  REQUIRE(list.size() == 4);
  // What the text says of families and of how sure it is, JSON says, too.
  CHECK_THAT(table.out, ContainsSubstring("with a probability of"));
  CHECK(answer["certainty"].get<double>() >= 0.5);
  CHECK(answer["families"][0]["because"] == "");
  for (const auto& lost : answer["lost_families"]) {
    CHECK(!lost["because"].get<std::string>().empty());
  }
  const auto& counts = answer["counts"];
  CHECK(counts["layouts"] == counts["too_large_by_bound"].get<int>() +
                                 counts["too_slow_by_bound"].get<int>() +
                                 counts["larger_than_these"].get<int>() +
                                 counts["refused"].get<int>() + counts["estimated"].get<int>());
  const CommandOutcome wanted = lockstep({"search", file, "--only", "tp=2"});
  CHECK_THAT(wanted.out, ContainsSubstring("tp 2") && !ContainsSubstring("tp 4"));
  for (std::size_t i = 1; i < list.size(); ++i) {
    CHECK(list[i - 1]["tokens_per_s"] >= list[i]["tokens_per_s"]);
  }
  // Run on its own, the scenario that was written does what was said of it.
  CHECK_THAT(table.out, ContainsSubstring(list[0]["layout"].get<std::string>()));
  const CommandOutcome best = lockstep({"run", folder / "best.toml", "--json"});
  REQUIRE(best.exit_code == 0);
  CHECK(nlohmann::json::parse(best.out)["tokens_per_s"] == list[0]["tokens_per_s"]);
}

TEST_CASE("search compares types of products, each as a scenario of that type", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = tiny(folder, "gpt2-tiny", 16, 2);
  const CommandOutcome o = lockstep({"search", file, "--json", "--dtype", "float32,bfloat16"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  const auto answers = nlohmann::json::parse(o.out);
  REQUIRE(answers.size() == 2);
  for (const auto& answer : answers) {
    const auto type = answer["dtype"].get<std::string>();
    const CommandOutcome own =
        lockstep({"search", file, "--json", "--set", "training.mixed_precision_param=" + type});
    REQUIRE(own.exit_code == 0);
    CHECK(answer["found"] == nlohmann::json::parse(own.out)["found"]);
  }
  CHECK(answers[0]["found"][0]["step_time_s"] > answers[1]["found"][0]["step_time_s"]);
  const CommandOutcome wrong = lockstep({"search", file, "--dtype", "int4"});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, ContainsSubstring("bfloat16"));
}

TEST_CASE("the objective energy takes the cluster whose devices draw least for a step", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = tiny(folder, "gpt2-tiny", 16, 2);
  const CommandOutcome o = lockstep({"search", file, "--json", "--nodes", "1,2", "--objective",
                                     "energy", "--write", folder / "best.toml"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  const auto sizes = nlohmann::json::parse(o.out);
  REQUIRE(sizes.size() == 2);
  double least = 1e300;
  int best = 0;
  for (const auto& size : sizes) {
    // An A100 SXM takes 400 W at most.
    const double joules =
        400 * 2 * size["nodes"].get<int>() * size["found"][0]["step_time_s"].get<double>();
    CHECK(size["joules_per_step"].get<double>() == Approx(joules));
    if (joules < least) best = size["nodes"].get<int>();
    least = std::min(least, joules);
  }
  const CommandOutcome run = lockstep({"run", folder / "best.toml", "--json"});
  REQUIRE(run.exit_code == 0);
  CHECK(nlohmann::json::parse(run.out)["world_size"] == 2 * best);
}

TEST_CASE("of several batches the search takes the one with most tokens a second", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = tiny(folder, "gpt2-tiny", 4, 2);
  const std::string best = folder / "best.toml";
  const CommandOutcome o = lockstep({"search", file, "--json", "--batch", "4,32", "--write", best});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  const auto batches = nlohmann::json::parse(o.out);
  REQUIRE(batches.size() == 2);
  const auto rate = [&](int i) { return batches[i]["found"][0]["tokens_per_s"].get<double>(); };
  CHECK(batches[0]["batch"] == 4);
  CHECK(batches[1]["batch"] == 32);
  CHECK(rate(1) > rate(0));  // of a small batch more is spent on the update
  const CommandOutcome run = lockstep({"run", best, "--json"});
  CHECK(nlohmann::json::parse(run.out)["tokens_per_s"] == rate(1));
}

TEST_CASE("sizes share the time of a search, and what one leaves over goes to the next", "[cli]") {
  TimeShares time(90, 3);
  time.begin_task(0);
  CHECK(!time.is_over(30));
  CHECK(time.is_over(30.1));
  time.begin_task(10);  // the first took 10 of its 30 s
  CHECK(!time.is_over(50));
  CHECK(time.is_over(50.1));
  time.begin_task(60);  // the second was late, and the last has the rest
  CHECK(!time.is_over(90));
  CHECK(time.is_over(90.1));
}

TEST_CASE("a search says which sizes it did not look at to the end, and which fit nothing",
          "[cli]") {
  const TemporaryFolder folder;
  const std::string file = tiny(folder, "gpt2-124m", 16, 2);
  const CommandOutcome text =
      lockstep({"search", file, "--nodes", "1,2", "--exhaustive", "--seconds", "0.6"});
  INFO(text.err);
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("not searched to the end") &&
                           ContainsSubstring("1 nodes, batch 16; 2 nodes, batch 16"));
  const CommandOutcome whole = lockstep({"search", file, "--nodes", "1,2"});
  CHECK_THAT(whole.out, !ContainsSubstring("not searched to the end"));
  const CommandOutcome o = lockstep({"search", file, "--json", "--nodes", "1,32"});
  REQUIRE(o.exit_code == 0);  // 64 ranks have no 16 sequences to share
  const auto sizes = nlohmann::json::parse(o.out);
  REQUIRE(sizes.size() == 2);
  CHECK(sizes[0]["stopped"] == false);
  CHECK(sizes[0]["found"].size() > 0);
  CHECK(sizes[1]["nodes"] == 32);
}

TEST_CASE("search orders layouts of a vision model by images, and takes no [expect] over",
          "[cli]") {
  const TemporaryFolder folder;
  const std::string file = tiny(folder, "resnet-tiny", 16, 2, "[expect]\nstep_time_s = 1000\n");
  const CommandOutcome json = lockstep({"search", file, "--json"});
  INFO(json.err);
  REQUIRE(json.exit_code == 0);
  const auto answer = nlohmann::json::parse(json.out);
  const auto& list = answer["found"];
  REQUIRE(list.size() > 3);
  CHECK(list.back()["images_per_s"] > 0);
  for (std::size_t i = 1; i < list.size(); ++i) {
    CHECK(list[i - 1]["step_time_s"] <= list[i]["step_time_s"]);
  }
  const CommandOutcome table =
      lockstep({"search", file, "--top", "1", "--write", folder / "best.toml"});
  CHECK_THAT(table.out, ContainsSubstring("16 images a step") && ContainsSubstring("images/s"));
  CHECK_THAT(table.out, ContainsSubstring(list[0]["layout"].get<std::string>()));
  CHECK(lockstep({"run", folder / "best.toml"}).exit_code == 0);
}

TEST_CASE("search says why it has no answer", "[cli]") {
  const TemporaryFolder folder;
  const std::string start = "[model]\npreset = \"gpt2-tiny\"\n";
  write_bytes(folder / "small.toml", start +
                                         "[cluster]\npreset = \"a100-80\"\n"
                                         "[cluster.device]\nmemory_gb = 0.0001\n");
  const CommandOutcome small = lockstep({"search", folder / "small.toml"});
  CHECK(small.exit_code == 3);
  CHECK_THAT(small.err, ContainsSubstring("by the bound on memory"));
  write_bytes(folder / "sweep.toml", start + "[sweep]\n\"training.local_batch_size\" = [1, 2]\n");
  const CommandOutcome sweep = lockstep({"search", folder / "sweep.toml"});
  CHECK(sweep.exit_code == 2);
  CHECK_THAT(sweep.err, ContainsSubstring("this is a sweep"));
  write_bytes(folder / "synthetic.toml", kSynthetic);
  const CommandOutcome synthetic = lockstep({"search", folder / "synthetic.toml"});
  CHECK(synthetic.exit_code == 2);
  CHECK_THAT(synthetic.err, ContainsSubstring("synthetic model has times for one layout"));
  write_bytes(folder / "s.toml", start);
  const CommandOutcome unwritten =
      lockstep({"search", folder / "s.toml", "--write", folder / "no/such.toml"});
  CHECK(unwritten.exit_code == 2);
  CHECK_THAT(unwritten.err, ContainsSubstring("there is no folder"));
}

}  // namespace
}  // namespace lockstep
