// A schedule file of PyTorch's, opened by itself: it becomes a scenario without a model.
#pragma once

#include <string>

#include "core/base/result.hpp"

namespace lockstep::gui {

/// A scenario text that runs the schedule `csv` holds, one second for every F, I and W. The text
/// names the file by its absolute path. Error: Parse, InvalidSpec where the rows are no schedule.
Result<std::string> scenario_of_schedule(const std::string& csv, const std::string& path);

}  // namespace lockstep::gui
