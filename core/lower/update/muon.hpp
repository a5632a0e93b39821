// The matrices that Muon orthogonalizes, as a rank holds them.
#pragma once

#include <vector>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// A matrix of which a rank holds rows x cols elements, from `offset` of its unit on.
struct HeldMatrix {
  std::int64_t offset = 0, rows = 0, cols = 0;
  int parts = 1;            // how many ranks divide it
  bool by_columns = false;  // each has some of the columns, and not of the rows
  double factor = 1;        // OptimizerSpec::adjustment() of the whole
  std::int64_t elements() const { return rows * cols; }
};
/// The matrices of a unit, in their order.
std::vector<HeldMatrix> matrices_of(const Program& program, const OptimizerSpec& optimizer,
                                    const UnitLayout& layout, const Unit& unit);

}  // namespace lockstep
