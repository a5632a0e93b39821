// Mapping: makes of a published row the scenario that says the same. This is the only place where a
// column of validation/training.csv becomes a key of a scenario; docs/validation.md has the table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/scenario/scenario_file.hpp"
#include "core/spec/scenario.hpp"
#include "core/validation/training_row.hpp"

namespace lockstep {

/// Why a row has no scenario.
enum class Unexpressed {
  NoProfile,  // hardware/ has no profile of the card
  Unsaid,     // the row does not give a size, a length or a batch
  NotDense,   // it has experts, of which the columns say nothing
  Refused,    // the scenario has a fault, as its file would show
};
std::string_view to_string(Unexpressed reason);

struct MappedRow {
  std::optional<Scenario> scenario;  // if it is there, the two below have no meaning
  Unexpressed reason = Unexpressed::Refused;
  std::string detail;  // what is missing ("heads"), or the fault of the scenario
};

/// Maps a row. `overrides` ("section.key=value") replace keys of the scenario, to change all rows;
/// `given_by` is that of parse_scenario().
MappedRow map_row(const TrainingRow& row, const std::vector<std::string>& overrides = {},
                  const std::string& given_by = kOverrideFile);

}  // namespace lockstep
