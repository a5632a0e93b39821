// The matrices of which Adafactor keeps second moments, as a rank holds them.
#pragma once

#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

/// A parameter of a unit, as a rank holds it: `count` matrices (experts; else 1) of rows x cols. A
/// vector is a matrix of one column, whose second moments are then those of its elements.
struct FactoredParameter {
  std::int64_t first = 0;  // element of the unit
  std::int64_t count = 1, rows = 1, cols = 1;
  std::int64_t whole_rows = 1, whole_cols = 1;  // of a matrix on all ranks
  int divided = 0;  // other ranks of the split group have more rows (1), or more columns (2)
  std::int64_t elements() const { return count * rows * cols; }
  std::int64_t factors() const { return count * (rows + cols); }
};
/// The parameters of a unit, in their order. Requires that it holds all sections of them.
std::vector<FactoredParameter> factored_parameters(const Program& program, const Unit& unit);

}  // namespace lockstep
