// Simulated: a scenario of this repository as the application shows it once it was simulated.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gui/model/run/run_view.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui::test {

/// `name` is that of a file below scenarios/.
inline RunPtr simulated(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const std::string file = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/" + name;
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  const Outcome outcome = simulate(text.str(), file, overrides, never);
  REQUIRE(outcome.run);
  return outcome.run;
}

}  // namespace lockstep::gui::test
