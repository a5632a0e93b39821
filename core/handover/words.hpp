// Words: what the handovers share. Internal to core/handover.
#pragma once

#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// A number as it is read back exactly, "3e-04" or "8".
std::string number_text(double value);

/// Says that a setting of the scenario has no word there, if `set`.
void leave_unsaid(std::vector<std::string>& unsaid, bool set, std::string what);

/// What none of the three can say, whatever else the scenario has.
std::vector<std::string> unsaid_by_all(const Scenario& scenario);

/// "torchrun --nnodes 8 --nproc-per-node 8": a process for each rank of the cluster.
std::string torchrun(const Scenario& scenario);

}  // namespace lockstep
