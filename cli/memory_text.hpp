// Memory text: what `lockstep show memory` prints: the memory plan of every role, and beside it the
// formulas from the literature.
#pragma once

#include <optional>
#include <string>

#include "core/format/table.hpp"
#include "core/ir/program.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// The text for all roles; or, if `rank` is given, for its role only, without the formulas.
std::string memory_text(const Scenario& scenario, const Program& program, std::optional<Rank> rank,
                        const Screen& screen);

}  // namespace lockstep
