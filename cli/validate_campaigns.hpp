// Validate campaigns: published campaigns beside simulated ones.
#pragma once

#include "cli/commands.hpp"
#include "core/validation/csv.hpp"

namespace lockstep {

/// What `lockstep validate` does with a table of campaigns. A layout that no source gives is
/// searched, which takes most of the time.
int validate_campaigns(const ValidateArguments& arguments, const CsvTable& table,
                       const Console& console);

}  // namespace lockstep
