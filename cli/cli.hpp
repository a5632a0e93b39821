// The command line: arguments -> command -> exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"

namespace lockstep {

/// Runs `arguments` (without the program's name). Exit codes: 0 fine, 2 the user's input, 3 does
/// not fit in memory, 4 device or communication failure, 5 an [expect] failed, 70 our bug.
int run_cli(const std::vector<std::string>& arguments, const Console& console);

}  // namespace lockstep
