// lower: makes a program from a scenario, by the passes of core/lower/passes in the order of their
// table.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/memory/device_memory.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Called after each named pass with a function that prints the state at that point.
using PassObserver =
    std::function<void(std::string_view pass, const std::function<std::string()>&)>;

/// The names of the passes, in order.
const std::vector<std::string>& pass_names();

/// A pure function, without clock, files, globals or randomness. Requires validate(s).empty().
/// Ensures verify(result).empty(). The program may need more memory than the cluster's devices
/// have; who runs it calls check_capacity() (core/lower/capacity.hpp), or lower_to_fit() instead.
/// Errors: InvalidSpec if the ranks would wait for each other in a circle when they post their
/// messages as the scenario says; Internal if verify() finds a fault.
Result<Program> lower(const Scenario& scenario, const PassObserver& after_pass = {});

/// lower() for a program that is going to be run. Beside the errors of lower(), it has that of
/// check_capacity(), OutOfMemory, which comes before the program is verified, and gives it `most`.
Result<Program> lower_to_fit(const Scenario& scenario, MemoryFigures* most = nullptr);

/// lower() without the proof, for small programs of layouts that are only compared and never run.
/// Nor does it count the model's arithmetic: model_flops_per_step is 0.
Result<Program> lower_unverified(const Scenario& scenario);

/// lower(), which verifies the program after every pass that leaves a verifiable one; an error
/// names the pass. It is for transformers: the running statistics of images have no writer before
/// the last passes.
Result<Program> lower_verifying_passes(const Scenario& scenario);

/// What each pipeline rank does, in order, which is the result of the pass "pipeline". It is pure,
/// and requires the same as lower().
Schedule lower_schedule(const Scenario& scenario);

}  // namespace lockstep
