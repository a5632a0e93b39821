// Newton-Schulz iterations, by which Muon makes a matrix nearly orthogonal (Jordan et al. 2024).
#pragma once

#include <cstdint>

#include "core/ir/program.hpp"

namespace lockstep {

/// Newton-Schulz iterations on a matrix that a rank holds whole.
struct NewtonSchulz {
  std::int64_t rows = 0, cols = 0;
  /// If above 1, the matrix lies as so many parts of its columns, one behind the other.
  int column_parts = 1;
  DType dtype = DType::F32;
  bool tf32 = false;  // whether products in float32 may round their factors
  int steps = 5;
  double factor = 1;  // by which the result is multiplied
};

/// A function that replaces "matrix" by a nearly orthogonal one: with its singular values s_i it
/// becomes U diag(p(...p(s_i / |s|))) Vt, where p(s) = a s + b s^3 + c s^5 drives every s to about
/// 1 (Jordan et al. 2024). Per step it has three products of the shorter side n and the longer one
/// N, 4 n^2 N + 2 n^3 flops.
Function newton_schulz(const NewtonSchulz& what);

}  // namespace lockstep
