#include <fstream>
#include <sstream>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("docs/scenario.md names every key, section and preset", "[core][scenario]") {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/scenario.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  REQUIRE_FALSE(page.empty());
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
