// lower: scenario -> program, by the passes of core/lower/passes in the order of their table.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Called after each named pass with a function that prints the state at that point.
using PassObserver =
    std::function<void(std::string_view pass, const std::function<std::string()>&)>;

/// Names of the passes, in order.
const std::vector<std::string>& pass_names();

/// Pure: no clock, files, globals or randomness. Requires validate(s).empty(). Ensures
/// verify(result).empty(). The program may need more memory than the cluster's devices have: who
/// runs it asks check_capacity (core/lower/capacity.hpp), or calls lower_to_fit. Errors:
/// InvalidSpec when the ranks would wait for each other in a circle, posting their messages as the
/// scenario says; Internal when verify finds a fault.
Result<Program> lower(const Scenario& scenario, const PassObserver& after_pass = {});

/// lower() for who is going to run the program. Errors, beside those of lower(): that of
/// check_capacity, OutOfMemory, before anything is verified.
Result<Program> lower_to_fit(const Scenario& scenario);

/// lower(), verifying the program after every pass that leaves a whole one: an error names the
/// pass. In debug builds lower() does so, too.
Result<Program> lower_verifying_passes(const Scenario& scenario);

/// What each pipeline rank does, in order: the result of the pass "pipeline". Requires and is as
/// lower().
Schedule lower_schedule(const Scenario& scenario);

}  // namespace lockstep
