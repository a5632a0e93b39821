// Settings options: how commands that take a scenario let one change it.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// Adds --set SECTION.KEY=VALUE and --framework NAME, which is short for --set
/// framework.preset=NAME. Both append to `set`. `what` is whose keys they are: "the scenario".
void add_settings(CLI::App* sub, std::vector<std::string>& set, const char* what = "the scenario");

}  // namespace lockstep
