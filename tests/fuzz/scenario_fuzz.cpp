// libFuzzer target: parse_scenario on any bytes. If the first line starts with "#set ", it is an
// override as for --set. What can be parsed must be sound and survive print and parse.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"

namespace {

void require(bool good, const char* rule, const std::string& text) {
  if (good) return;
  std::cerr << rule << "\n" << text << "\n";
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  if (text.starts_with("#set ")) overrides.emplace_back(text.substr(5, text.find('\n') - 5));
  const LoadedScenario loaded = parse_scenario(text, "fuzz/fuzz.toml", overrides);
  require(loaded.points.empty() != loaded.ok(), "points without ok, or ok without points", "");
  for (const Error& error : loaded.errors) {
    require(error.where.has_value() && !error.message.empty(), "an error without its place",
            to_string(error));
    require(exit_code(error.kind) == 2, "a user's mistake blamed on another", to_string(error));
  }
  if (loaded.points.empty()) return 0;
  Scenario scenario = loaded.points.front().scenario;
  require(validate(scenario).empty(), "an unsound scenario", print_scenario(scenario));
  const std::string printed = print_scenario(scenario);
  const LoadedScenario again = parse_scenario(printed, "fuzz/fuzz.toml", {});
  for (const Error& error : again.errors) require(false, to_string(error).c_str(), printed);
  scenario.training.dataset = again.points.front().scenario.training.dataset;  // made absolute
  require(again.points.front().scenario == scenario, "print and parse differ", printed);
  return 0;
}
