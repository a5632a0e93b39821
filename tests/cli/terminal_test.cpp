// What commands look like on a terminal: how wide they are, their help, and their colours.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/help.hpp"
#include "core/format/table.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using test::CommandOutcome;
using test::kSynthetic;
using test::kTiny;

using Words = std::vector<std::string>;
const std::string kRoot = LOCKSTEP_SOURCE_DIR;

/// The lines that are wider than `width`.
std::string too_wide(const std::string& text, std::size_t width) {
  std::istringstream lines(text);
  std::string wide;
  for (std::string line; std::getline(lines, line);) {
    if (text_width(line) > width) wide += line + "\n";
  }
  return wide;
}

/// The words of a line as a shell divides them.
Words words_of(const std::string& line) {
  Words words;
  char quote = '\0';
  bool begun = false;
  for (const char c : line) {
    if (quote != '\0' ? c == quote : c == '"' || c == '\'') {
      quote = quote != '\0' ? '\0' : c;
    } else if (c == ' ' && quote == '\0') {
      begun = false;
    } else {
      if (!begun) words.emplace_back();
      begun = true;
      words.back() += c;
    }
  }
  return words;
}

Words commands() {
  std::istringstream lines(test::lockstep({"complete", "--", ""}).out);
  Words names;
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

TEST_CASE("at 80 columns no line of any command is wider", "[cli]") {
  const TemporaryFolder folder;
  const std::string pipeline = folder / "pipeline.toml", tiny = folder / "tiny.toml",
                    run = folder / "run", program = folder / "a.program",
                    large = kRoot + "/scenarios/clusters/llama2-7b-fsdp-8xh100.toml";
  write_bytes(pipeline, kSynthetic);
  write_bytes(tiny, kTiny + "[cluster]\npreset = \"a100-80\"\n");
  write_bytes(program, test::lockstep({"show", "program", tiny}).out);
  REQUIRE(test::lockstep({"run", tiny, "--out", run}).exit_code == 0);
  const std::string sweep = "--sweep.parallelism.pipeline_parallel_microbatches=[4,8,16]";
  // By command. What other programs read has the width that it has: programs, schedules, scenarios,
  // configurations, Markdown, the manual page and scripts of shells.
  const std::map<std::string, std::vector<Words>> tried = {
      {"run", {{tiny}, {large}, {pipeline, "--timeline"}, {pipeline, sweep}, {program}}},
      {"report", {{run, "--timeline"}, {run, "--names", "9"}}},
      {"compare", {{tiny, large}, {run, pipeline}}},
      {"show", {{"memory", large}, {"model", large}, {"memory", tiny, "--rank", "3"}}},
      {"verify", {{program}}},
      {"lesson", {{}}},
      {"recommend",
       {{"--model", "gpt2-124m", "--cluster", "a100-80"},
        {"--params", "70B", "--gpu-mem", "64", "--gpus", "8"}}},
      {"search", {{tiny, "--sensitivity", "--verbose"}, {large, "--nodes", "1,2"}}},
      {"campaign",
       {{kRoot + "/scenarios/published/llama3-405b-16384xh100.toml", "--runs", "10"},
        {large, "--campaign.days=30", "--campaign.failures=bloom", "--runs", "10"}}},
      {"calibrate", {}},  // takes half a minute; its table is as wide as a profile's figures
      {"validate",
       {{kRoot + "/validation/collectives.csv", "--rows"},
        {kRoot + "/validation/training.csv", "--source", "zb-*", "--rows"},
        {kRoot + "/validation/campaigns.csv", "--row", "bloom-176b"}}},
      {"collective", {{"--sweep", "--nodes", "4"}, {"--cluster", "a100-80"}}},
      {"fit", {}},     // needs measurements: fit_test.cpp
      {"sample", {}},  // a text
      {"import", {}},  // a scenario
      {"export", {}},  // a configuration
      {"data", {}},    // a file; its two lines are in models_test.cpp
      {"list",
       {{},
        {"models"},
        {"clusters"},
        {"schedules"},
        {"scenarios"},
        {"frameworks"},
        {"backends"},
        {"keys"}}},
      {"completion", {}},
      {"help", {{}, {"run"}}},
      {"version", {{}}},
      {"man", {}},
  };
  for (const std::string& command : commands()) {
    INFO(command);
    REQUIRE(tried.contains(command));
    for (Words words : tried.at(command)) {
      words.insert(words.begin(), command);
      const CommandOutcome narrow = test::lockstep(words, 80);
      INFO(words.back() << narrow.err);
      CHECK(narrow.exit_code == 0);
      CHECK(!narrow.out.empty());
      CHECK(too_wide(narrow.out, 80).empty());
    }
    const CommandOutcome help = test::lockstep({command, "--help"}, 80);
    CHECK(too_wide(help.out, 80).empty());
    // Examples are not broken, so that they can be copied.
    for (const Example& example : examples_of(command)) {
      CHECK_THAT(help.out, ContainsSubstring("  lockstep " + std::string(example.arguments)));
    }
  }
  CHECK(too_wide(test::lockstep({"--help-all"}, 80).out, 80).empty());
  // --wide shows what has no room, and the table is as wide as it is.
  const CommandOutcome narrow = test::lockstep({"search", large}, 80);
  const CommandOutcome wide = test::lockstep({"search", large, "--wide"}, 80);
  CHECK_THAT(narrow.out, ContainsSubstring("--wide shows all"));
  CHECK_THAT(wide.out, !ContainsSubstring("--wide shows all"));
  CHECK(!too_wide(wide.out, 80).empty());
}

TEST_CASE("the help of every command has examples that can be run as they stand", "[cli]") {
  for (const std::string& command : commands()) {
    INFO(command);
    const std::string help = test::lockstep({command, "--help"}, 500).out;
    CHECK_THAT(help, !std::regex_search(help, std::regex("(TEXT|INT|UINT|FLOAT|ENUM)\\b"))
                         ? ContainsSubstring("Usage: lockstep " + command)
                         : ContainsSubstring("no type of CLI11"));
    const std::size_t begin = help.find("Examples:\n");
    REQUIRE(begin != std::string::npos);
    std::istringstream lines(help.substr(begin));
    int examples = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  lockstep ")) continue;
      const Words words = words_of(line.substr(11));
      INFO(line);
      CHECK(words.front() == command);
      CHECK(fault_in(words).empty());
      for (const std::string& word : words) {  // files of the repository are there
        if (word.starts_with("scenarios/") || word.starts_with("validation/")) {
          CHECK(std::filesystem::exists(kRoot + "/" + word));
        }
      }
      ++examples;
    }
    CHECK(examples >= 1);
  }
  CHECK(fault_in({"run"}).find("needs a scenario") != std::string::npos);
  CHECK(fault_in({"run", "a.toml", "--stepz", "1"}).find("--steps") != std::string::npos);
}

TEST_CASE("help and version are commands, too", "[cli]") {
  CHECK(test::lockstep({"help"}).out == test::lockstep({"--help"}).out);
  CHECK(test::lockstep({"help", "search"}).out == test::lockstep({"search", "--help"}).out);
  CHECK(test::lockstep({"version"}).out == test::lockstep({"--version"}).out);
  CHECK_THAT(test::lockstep({"help", "serch"}).err, ContainsSubstring("did you mean 'search'?"));
}

TEST_CASE("--color always emphasizes headings and errors, and never nothing", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  const auto run = [&](Words more) {
    more.insert(more.begin(), {"run", folder / "s.toml"});
    return test::lockstep(more);
  };
  CHECK_THAT(run({"--color", "always"}).out, ContainsSubstring("\033[1m"));
  CHECK_THAT(run({"--color=never"}).out, !ContainsSubstring("\033"));
  CHECK_THAT(run({"--color=always", "--stepz"}).err, ContainsSubstring("\033[1;31merror:"));
  CHECK_THAT(run({"--color", "sometimes"}).err, ContainsSubstring("--color"));
  const CommandOutcome before = test::lockstep({"--color", "always", "run", folder / "s.toml"});
  CHECK(before.out == run({"--color", "always"}).out);
}

TEST_CASE("with --json errors of arguments, files and expectations are JSON", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic + "[expect]\nstep_time_s = 1.0\n");
  write_bytes(folder / "bad.toml", "[model]\npreset = \"gpt2-tini\"\n");
  const auto error = [&](const Words& arguments) {
    const CommandOutcome o = test::lockstep(arguments);
    INFO(o.err);
    CHECK(o.exit_code != 0);
    return nlohmann::json::parse(o.err);
  };
  CHECK(error({"run", "--json"})["level"] == "error");
  CHECK(error({"run", folder / "bad.toml", "--json"})["line"] == 2);
  CHECK(error({"run", folder / "s.toml", "--json"})["kind"] == "expectation");
  CHECK(error({"report", folder / "none", "--json"})["message"].get<std::string>().find("none") !=
        std::string::npos);
}

TEST_CASE("every key of a scenario is an option", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  const auto time = [&](Words more) {
    more.insert(more.begin(), {"run", folder / "s.toml", "--json"});
    const CommandOutcome o = test::lockstep(more);
    INFO(o.err);
    REQUIRE(o.exit_code == 0);
    return nlohmann::json::parse(o.out)["step_time_s"].get<double>();
  };
  const double set = time({"--set", "parallelism.pipeline_parallel_microbatches=16"});
  CHECK(set != time({}));
  CHECK(time({"--parallelism.pipeline_parallel_microbatches", "16"}) == set);
  CHECK(time({"--parallelism.pipeline_parallel_microbatches=16"}) == set);
  const CommandOutcome wrong =
      test::lockstep({"run", folder / "s.toml", "--parallelism.pipeline_paralel_degree", "2"});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, ContainsSubstring("pipeline_parallel_degree"));
  // A switch needs no value.
  const CommandOutcome on =
      test::lockstep({"show", "model", folder / "s.toml", "--model.tied_embeddings", "--json"});
  CHECK_THAT(on.err, !ContainsSubstring("needs a value"));
}

TEST_CASE("expectations of a file are of the file as it is", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder / "s.toml", swept = folder / "sweep.toml";
  write_bytes(file, kSynthetic + "[expect]\nstep_time_s = 34.0\n");
  const auto run = [&](Words more) {
    more.insert(more.begin(), "run");
    return test::lockstep(more);
  };
  CHECK(run({file}).exit_code == 5);
  // The same value, and what decides no figure, change nothing of what is described.
  CHECK(run({file, "--set", "parallelism.pipeline_parallel_microbatches=8"}).exit_code == 5);
  CHECK(run({file, "--set", "checkpoint.interval=7"}).exit_code == 5);
  const CommandOutcome other = run({file, "--set", "parallelism.pipeline_parallel_schedule=GPipe"});
  CHECK(other.exit_code == 0);
  CHECK_THAT(other.err, ContainsSubstring("[expect] of the file is not judged: "
                                          "parallelism.pipeline_parallel_schedule"));
  // What is expected on the command line is of what is run.
  CHECK(run({file, "--set", "parallelism.pipeline_parallel_schedule=GPipe", "--set",
             "expect.step_time_s=1.0"})
            .exit_code == 5);
  // A value of [sweep] is one that the file has expectations for.
  write_bytes(swept, kSynthetic +
                         "[sweep]\nparallelism.pipeline_parallel_microbatches = [4, 8]\n"
                         "[expect]\nstep_time_s = [21.0, 34.0]\n");
  const std::string axis = "parallelism.pipeline_parallel_microbatches=";
  CHECK(run({swept, "--set", axis + "4"}).exit_code == 0);
  CHECK(run({swept, "--set", axis + "8"}).exit_code == 5);
  CHECK(run({swept, "--set", axis + "16"}).exit_code == 0);
}

TEST_CASE("a sweep of one point has the shape of a sweep, and each point that of a run", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", kSynthetic);
  const auto json = [&](Words more) {
    more.insert(more.begin(), {"run", folder / "s.toml", "--json"});
    return nlohmann::json::parse(test::lockstep(more).out);
  };
  auto one = json({"--sweep.parallelism.pipeline_parallel_microbatches=[8]"});
  REQUIRE(one.size() == 1);
  CHECK(one[0].at("label") == "parallelism.pipeline_parallel_microbatches=8");
  one[0].erase("label");
  auto run = json({});
  // A point's efficiency is relative to the first.
  one[0].erase("scaling_efficiency");
  run.erase("scaling_efficiency");
  CHECK(one[0] == run);
}

TEST_CASE("what is no scenario is named, with the command that takes it", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.csv", "id\n");
  write_bytes(folder / "trace.json", "{\"traceEvents\": []}");
  write_bytes(folder / "README.md", "# Words\n\nMore.\n");
  write_bytes(folder / "s.toml", kSynthetic);
  REQUIRE(test::lockstep({"run", folder / "s.toml", "--out", folder / "run"}).exit_code == 0);
  const auto said = [&](const std::string& file) {
    const CommandOutcome o = test::lockstep({"run", file});
    CHECK(o.exit_code == 2);
    return o.err;
  };
  CHECK_THAT(said(folder / "README.md"), ContainsSubstring("lockstep list scenarios"));
  CHECK_THAT(said(kRoot + "/scenarios/course/06-pipeline.md"),
             ContainsSubstring("lockstep lesson ") && ContainsSubstring("lockstep run "));
  CHECK_THAT(said(folder / "a.csv"), ContainsSubstring("lockstep validate"));
  CHECK_THAT(said(folder / "trace.json"), ContainsSubstring("lockstep report"));
  CHECK_THAT(said(folder / "run"), ContainsSubstring("lockstep report"));
  CHECK_THAT(test::lockstep({"search", folder / "README.md"}).err, ContainsSubstring("Markdown"));
}

TEST_CASE("a lesson has a number, and the course a list", "[cli]") {
  const CommandOutcome page =
      test::lockstep({"lesson", kRoot + "/scenarios/course/06-pipeline.md", "--json"});
  const CommandOutcome sixth = test::lockstep({"lesson", "6", "--json"});
  REQUIRE(sixth.exit_code == 0);
  CHECK(nlohmann::json::parse(sixth.out)["title"] == nlohmann::json::parse(page.out)["title"]);
  const auto list = nlohmann::json::parse(test::lockstep({"lesson", "--json"}).out);
  CHECK(list.size() >= 13);
  CHECK(list[5]["title"] == nlohmann::json::parse(page.out)["title"]);
  CHECK_THAT(test::lockstep({"lesson", "99"}).err, ContainsSubstring("pages 1 to"));
}

}  // namespace
}  // namespace lockstep
