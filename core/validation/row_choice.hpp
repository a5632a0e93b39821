// Row choice: which rows of a file of measurements are compared.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/validation/collectives.hpp"
#include "core/validation/csv.hpp"
#include "core/validation/training_row.hpp"

namespace lockstep {

struct RowChoice {
  std::string file;         // CSV of training runs or of collectives
  std::string source, row;  // a pattern of sources, and an id; empty: all
};

Result<CsvTable> read_csv(const std::string& file);
/// Whether the rows are collectives; training runs otherwise.
bool has_collectives(const CsvTable& table);

/// Those of `read` that are chosen, or why there are none: its errors, or a name that none has,
/// with the nearest.
TrainingRows choose_rows(TrainingRows read, const RowChoice& choice);
CollectiveRows choose_rows(CollectiveRows read, const RowChoice& choice);

}  // namespace lockstep
