// Mapping: one published row -> the scenario that says the same. The one place where a column of
// validation/training.csv becomes a key of a scenario; docs/validation.md has the table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/spec/scenario.hpp"
#include "core/validation/training_row.hpp"

namespace lockstep {

/// Why a row has no scenario.
enum class Unexpressed {
  LowPrecision,          // fp8 or fp4
  NoProfile,             // of the card in hardware/
  Unsaid,                // a size, a length or a batch that the row does not give
  NotDense,              // experts, of which the columns say nothing
  VocabularyOverStages,  // output layer divided over the pipeline
  Refused,               // a fault of the scenario, as its file would show it
};
std::string_view to_string(Unexpressed reason);

struct MappedRow {
  std::optional<Scenario> scenario;  // where it is, the two below mean nothing
  Unexpressed reason = Unexpressed::Refused;
  std::string detail;  // "heads", or what the scenario's fault is
};

/// `overrides`: keys of the scenario that replace the mapped ones, "section.key=value", for
/// what-ifs over all rows.
MappedRow map_row(const TrainingRow& row, const std::vector<std::string>& overrides = {});

/// The profile in hardware/ of a published name of a card; empty: there is none.
std::string_view profile_of(std::string_view hw);

/// Gb/s of a node's ports together ("8x200Gb/s HDR IB per node", "1600Gb/s RoCE per node"); none
/// where no rate is named.
std::optional<double> node_gigabits(std::string_view interconnect);

}  // namespace lockstep
