// What `lockstep show memory` says: the plan of every role, and beside it the published formulas.
#pragma once

#include <optional>
#include <string>

#include "core/ir/program.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Of all roles, or of one rank's without the formulas.
std::string memory_text(const Scenario& scenario, const Program& program, std::optional<Rank> rank);

}  // namespace lockstep
