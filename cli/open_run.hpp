// open_run for a console, which shows progress and remarks and may cancel.
#pragma once

#include "cli/console.hpp"
#include "core/run_folder/run_folder.hpp"

namespace lockstep {

/// Opens a run, and prints its remarks to `console.err` as notes.
Result<Run> open_run(const std::string& path, const Console& console);

}  // namespace lockstep
