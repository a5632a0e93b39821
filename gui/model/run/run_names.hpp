// Run names: titles that tell open runs apart.
#pragma once

#include <string>
#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// A name for each run: its title, and behind it, where several have the same title, what they
/// differ in: the keys of their scenarios ("pipeline, simulated: pipeline_parallel_schedule ZB-H2")
/// or else their folders, or else their numbers.
std::vector<std::string> distinct_names(const std::vector<RunPtr>& runs);

}  // namespace lockstep::gui
