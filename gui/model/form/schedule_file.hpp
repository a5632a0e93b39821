// Schedule file: a schedule file of PyTorch that is opened alone becomes a scenario without a
// model.
#pragma once

#include <string>

#include "core/base/result.hpp"

namespace lockstep::gui {

/// The text of a scenario that runs the schedule in `csv`, with one second for every F, I and W.
/// The text names the file by its absolute path. Errors: Parse; InvalidSpec if the rows are not a
/// schedule.
Result<std::string> scenario_of_schedule(const std::string& csv, const std::string& path);

}  // namespace lockstep::gui
