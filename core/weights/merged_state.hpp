// Merged state: a state whose weights read with low-rank terms added, a piece at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/training_state.hpp"

namespace lockstep {

/// scale · B A, which is added to some rows of a weight W [.., in]. Rows count over all dimensions
/// of W but the last. Those of experts have a matrix for each.
struct LowRankTerm {
  std::string down;  // A [rank, in] or [experts, rank, in], a tensor of the state of terms
  std::string up;    // B [rows, rank] or [experts, rows, rank], likewise
  std::int64_t first_row = 0;  // of W, to which B's first row belongs
  double scale = 1;
};
using LowRankTerms = std::map<std::string, std::vector<LowRankTerm>>;  // by the weight's name

/// `state` with the terms added, rounded to the type of each weight and without the tensors that
/// are terms. `adapters` holds A and B; it may be `state`. Both must outlive what is returned.
/// Requires that all tensors are there, in shapes that fit.
std::unique_ptr<StateReader> add_low_rank(const StateReader& state, const StateReader& adapters,
                                          LowRankTerms terms);

}  // namespace lockstep
