#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("the pages on scenarios name every key, section and preset", "[core][scenario]") {
  const std::filesystem::path docs = LOCKSTEP_SOURCE_DIR "/docs";
  std::vector<std::filesystem::path> files = {docs / "scenario.md", docs / "framework.md"};
  for (const auto& entry : std::filesystem::directory_iterator(docs / "scenario")) {
    files.push_back(entry.path());
  }
  std::string page;
  for (const auto& path : files) {
    std::ifstream file(path);
    page.append(std::istreambuf_iterator<char>(file), {});
  }
  for (const auto& names : {model_preset_names(), cluster_preset_names()}) {
    for (const std::string& name : names) CHECK_THAT(page, ContainsSubstring("`" + name + "`"));
  }
  const LoadedScenario loaded = parse_scenario(
      "[model]\npreset = \"synthetic\"\n[costs]\nforward = 1\nbackward_input = 1\n"
      "backward_weight = 1\n",
      "one.toml", {});
  REQUIRE(loaded.ok());
  std::istringstream printed(print_scenario(loaded.points[0].scenario));
  int keys = 0;
  for (std::string line; std::getline(printed, line);) {
    if (line.starts_with("[")) {
      CHECK_THAT(page, ContainsSubstring(line));
    } else if (const std::size_t equals = line.find(" = "); equals != std::string::npos) {
      CHECK_THAT(page, ContainsSubstring("`" + line.substr(0, equals) + "`"));
      ++keys;
    }
  }
  CHECK(keys > 70);
}

}  // namespace
}  // namespace lockstep
