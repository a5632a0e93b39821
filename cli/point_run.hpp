// run_point: a session whose progress the console shows.
#pragma once

#include <string>

#include "cli/commands.hpp"
#include "core/session/session.hpp"

namespace lockstep {

/// Runs one point of a sweep, or the only one, with `out` as its run folder, and draws its timeline
/// where that was asked for.
Result<SessionOutcome> run_point(const RunArguments& arguments, const Console& console,
                                 const Subject& subject, Process& process, const std::string& out);

}  // namespace lockstep
