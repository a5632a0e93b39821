// What helps at a shell: help without arguments, lists, completion and the manual page.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/commands.hpp"
#include "core/scenario/key_list.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/schedule/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

std::vector<std::string> complete(std::vector<std::string> words) {
  words.insert(words.begin(), {"complete", "--"});
  std::istringstream lines(test::lockstep(words).out);
  std::vector<std::string> list;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) list.push_back(line);
  }
  return list;
}

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

TEST_CASE("lockstep alone shows its commands and three examples, and that nothing was done",
          "[cli]") {
  const test::CommandOutcome alone = test::lockstep({});
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.out, ContainsSubstring("recommend"));
  std::istringstream lines(alone.out.substr(alone.out.find("Try:")));
  int examples = 0;
  for (std::string line; std::getline(lines, line);) examples += line.starts_with("  lockstep ");
  CHECK(examples == 3);
}

TEST_CASE("every list has a row for each name, and JSON with the same rows", "[cli]") {
  for (const std::string& what : kLists) {
    INFO(what);
    const auto rows = nlohmann::ordered_json::parse(test::lockstep({"list", what, "--json"}).out);
    REQUIRE(!rows.empty());
    const std::string text = test::lockstep({"list", what, "--wide"}).out;
    for (const auto& row : rows) {
      CHECK_THAT(text, ContainsSubstring(row.front().get<std::string>()));
    }
    CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == rows.size() + 1);
  }
  const auto models = nlohmann::json::parse(test::lockstep({"list", "models", "--json"}).out);
  CHECK(models.size() == model_preset_names().size());
  for (const auto& row : models) {
    if (row.at("model") == "gpt2-124m") CHECK(row.at("parameters") == 124439808);
  }
  const auto schedules = nlohmann::json::parse(test::lockstep({"list", "schedules", "--json"}).out);
  CHECK(schedules.size() == kSchedules.size());
  CHECK(test::lockstep({"list", "modles"}).exit_code == 2);
}

TEST_CASE("a shell is offered commands, options, and the names that values have", "[cli]") {
  CHECK(complete({"rec"}) == std::vector<std::string>{"recommend"});
  CHECK_FALSE(has(complete({""}), "complete"));  // asked by scripts alone
  CHECK(has(complete({"run", "x.toml", "--res"}), "--resume"));
  CHECK(has(complete({"run", "x.toml", "--backend", ""}), "reference"));
  CHECK(complete({"search", "--objective", "mo"}) == std::vector<std::string>{"money"});
  CHECK(complete({"show", "sch"}) == std::vector<std::string>{"schedule"});
  CHECK(complete({"show", "schedule", ""}).empty());  // a file: the shell knows better
  CHECK(has(complete({"run", "x.toml", "--set", "training.seq"}), "training.seq_len="));
  CHECK(complete({"run", "x.toml", "--training.seq"}) ==
        std::vector<std::string>{"--training.seq_len"});
  CHECK_FALSE(has(complete({"run", "x.toml", "--"}), "--training.seq_len"));  // too many
  CHECK(complete({"help", "calib"}) == std::vector<std::string>{"calibrate"});
  CHECK(complete({"run", "--set", "parallelism.pipeline_parallel_schedule=ZB-H"}) ==
        std::vector<std::string>{"parallelism.pipeline_parallel_schedule=ZB-H1",
                                 "parallelism.pipeline_parallel_schedule=ZB-H2"});
  CHECK(has(complete({"recommend", "--cluster", "h"}), "h100"));
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CHECK_THAT(test::lockstep({"completion", shell}).out, ContainsSubstring("complete --"));
  }
  CHECK_THAT(test::lockstep({"completion", "bsh"}).err, ContainsSubstring("bash"));
}

TEST_CASE("every key that completes is a key that --set takes", "[cli]") {
  for (const ScenarioKey& key : scenario_keys()) {
    INFO(key.name);
    // A value of the wrong kind is refused for itself, a wrong name for the name.
    const LoadedScenario loaded = parse_scenario("[model]\npreset = \"gpt2-tiny\"\n", "a.toml",
                                                 {key.name + "={ wrong = 1 }"});
    const std::string last = key.name.substr(key.name.rfind('.') + 1);
    for (const Error& e : loaded.errors) {
      CHECK_THAT(e.message, !ContainsSubstring("unknown key '" + last + "'"));
    }
  }
}

TEST_CASE("the manual page has every command and option of --help", "[cli]") {
  const std::string page = test::lockstep({"man"}).out;
  CHECK_THAT(page, ContainsSubstring(".TH LOCKSTEP 1"));
  for (const std::string& command : complete({""})) {
    CHECK_THAT(page, ContainsSubstring("lockstep " + command));
    for (const std::string& option : complete({command, "--"})) {
      if (option == "--help" || option == "--help-all") continue;
      std::string escaped;
      for (const char c : option) escaped += c == '-' ? "\\-" : std::string(1, c);
      CHECK_THAT(page, ContainsSubstring(escaped));
    }
  }
}

}  // namespace
}  // namespace lockstep
