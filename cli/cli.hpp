// Command line: parses the arguments, runs the command that they name, and returns its exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"

namespace lockstep {

/// Runs `arguments` (without the program's name). Exit codes: 0 for success, 2 for wrong input, 3
/// if something does not fit in memory, 4 for a failure of a device or of communication, 5 if an
/// [expect] failed, 70 for a fault of Lockstep.
int run_cli(const std::vector<std::string>& arguments, const Console& console);

/// What is wrong with arguments, found without running anything; empty if they name a command that
/// takes them.
std::string fault_in(const std::vector<std::string>& arguments);

}  // namespace lockstep
