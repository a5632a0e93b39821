// UnitUpdate: what the rules of updating write with.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/draft/one_kernel.hpp"
#include "core/lower/draft/op_writer.hpp"

namespace lockstep {

/// The update of one unit of a role, while its ops are written.
struct UnitUpdate : OpWriter {
  DraftRole& out;
  std::size_t index;     // of the unit
  BufferId gradient;     // of the rank's shard, summed over ranks
  BufferId coefficient;  // by which clipping multiplies gradients; invalid if it is off

  UnitUpdate(Draft& draft, DraftRole& out, std::size_t unit, BufferId coefficient);

  const Unit& unit() const { return out.role.units[index]; }
  const UnitLayout& layout() const { return layout_of(draft, out.units[index]); }
  const OptimizerSpec& optimizer() const { return draft.scenario.optimizer; }
  const TrainingSpec& training() const { return draft.scenario.training; }
  BufferId state(StateKind kind) const { return unit().states[kind]; }
  DType dtype_of(BufferId buffer) const { return role.buffer(buffer).dtype; }
  /// Elements of the shard that the rank updates.
  std::int64_t elements() const { return unit().shard_elements; }
  double weight_decay() const { return layout().decays ? optimizer().weight_decay : 0; }

  /// own_parameters() of the unit, declared once.
  BufferId own();
  /// What the rule moves: the master copy, if there is one, or own().
  BufferId weights();

  /// A kernel over the elements of the shard, in the type of the weights.
  Kernel kernel(KernelKind kind, std::array<std::int64_t, kMaxDims> dims,
                std::array<double, 4> scalars = {});
  /// Moves the weights by one kernel that works on single elements. It reads the gradient and the
  /// coefficient of clipping, and updates the weights and what the rule keeps beside them, which
  /// the function calls by `names`.
  void move(Kernel kernel, std::initializer_list<const char*> names);
  /// The operands that begin such kernels.
  std::vector<NamedOperand> gradient_and_coefficient() const;
  /// What they are bound to.
  std::vector<BufferId> gradient_and_coefficient_args() const;

 private:
  BufferId own_;
};

}  // namespace lockstep
