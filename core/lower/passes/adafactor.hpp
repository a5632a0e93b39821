// Adafactor: the update of units by second moments of the rows and columns of their matrices
// (Shazeer and Stern 2018).
//
// Sums over rows and columns are linear in the elements, so that ranks which share a unit's states,
// or divide its matrices, add up what each of them has: two small all-reduces for every unit, of
// rows + columns + 1 elements of each matrix, and of one. No gradient is gathered, and shards stay
// flat. The second moments are the same on all ranks of a shard group. With DTensors (FSDP2), where
// a rank has whole rows, the same sums are all-reduced, less those of rows.
//
// Every unit's sums are on their way before the first of them is needed.
#pragma once

#include <string>
#include <vector>

#include "core/lower/draft/draft.hpp"

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

class AdafactorStep {
 public:
  AdafactorStep(Draft& draft, DraftRole& out)
      : draft_(draft), out_(out), units_(out.units.size()) {}
  // The parts of an update, in this order. The coefficient of clipping may be invalid; `weights`
  // is the rank's shard.

  /// Declares the factors of unit `u`, and adds up squares of its gradient and of its weights.
  void sum(std::size_t u, BufferId coefficient, BufferId weights);
  /// Updates the factors, and adds up the squares of the update.
  void square(std::size_t u, BufferId coefficient);
  /// Moves the weights.
  void move(std::size_t u, BufferId coefficient, BufferId weights);

 private:
  /// Sums that are terms of what the shard group adds up; those of what the split group divides are
  /// added up over it, too.
  struct Sums {
    BufferId own, shared;  // one of them may be invalid
  };
  struct State {
    std::vector<FactoredParameter> parameters;
    BufferId factors, shard;  // `shard` is invalid if the unit is not sharded
    Sums sums, squares;
  };
  /// A function's formals, with what they are bound to.
  struct Build {
    Function function;
    std::vector<BufferId> args;
    Operand add(const char* name, Access access, DType dtype, BufferId arg, Bytes bytes);
  };
  /// What several functions read.
  struct Shared {
    Operand grad, coefficient, shard;
  };
  struct Factors {
    Operand rows, cols;
  };
  class Places;

  Build begin(const char* name, std::size_t u);
  void call(const Build& build, std::size_t u);
  void declare_factors(std::size_t u);
  BufferId position(const Unit& unit);
  Sums add_sums(const char* name, Bytes own, Bytes shared, std::size_t u);
  void reduce(const Sums& sums, std::size_t u);
  GroupId dividers(std::size_t u);
  Kernel kernel(KernelKind kind, std::size_t u, const FactoredParameter& parameter) const;
  Shared shared(Build& build, std::size_t u, BufferId coefficient);
  static Factors next_factors(Operand& factors, const FactoredParameter& parameter);
  DType sums() const { return draft_.dtype_of(BufferKind::Metric); }

  Draft& draft_;
  DraftRole& out_;
  IndexVector<int, State> units_;
  BufferId shards_;  // 0, 1, 2, …; a rank's own piece is its position
};

}  // namespace lockstep
