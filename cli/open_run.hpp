// open_run with what a console can show of it: progress, cancel, remarks.
#pragma once

#include "cli/console.hpp"
#include "core/run_folder/run_folder.hpp"

namespace lockstep {

/// Remarks go to `console.err` as notes.
Result<Run> open_run(const std::string& path, const Console& console);

}  // namespace lockstep
