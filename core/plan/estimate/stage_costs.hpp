// Stage costs: what the stages of a pipeline take and keep, by their number of blocks, as it is
// read from two probes with different numbers of blocks.
#pragma once

#include <functional>

#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/plan/estimate/pipeline_run.hpp"
#include "core/plan/estimate/probe.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Seconds or bytes that are linear in a number of blocks.
struct ByBlocks {
  double fixed = 0, per_block = 0;
  double at(double blocks) const { return fixed + per_block * blocks; }
};

/// The memory of a kind of stage.
struct StageMemory {
  ByMoment<ByBlocks> rest;  // what a rank needs beside microbatches in flight
  ByBlocks kept, pending;   // of each microbatch in flight: from F, and from I
  /// RoleMemory::holes: the most of the probes. It grows with the blocks where each may leave one:
  /// with ZeRO 3, which gathers it, and where a schedule splits its backward pass.
  ByBlocks holes;
  /// The most of `rest` in a part of the step, of a stage with so many blocks.
  double most(StepPart part, double blocks) const;
};

/// A pipeline has three kinds of stages: the first (0), those between (1), and the last (2). One of
/// two stages has none between.
struct StageCosts {
  int low = 0, high = 0;  // the probes' blocks of a stage
  PipelineCost at_low, at_high;
  IndexVector<int, StageMemory> memory;  // by kind
  /// What a step takes beyond the actions of its pipeline: before and after the passes, such as
  /// gathers that the first of them waits for and reductions of the last; and in the update.
  ByBlocks around, update;
  /// Bytes of the output layer's table with its states, and of its gradient, on the last stage. One
  /// rank with both ends of a model that ties them does not have these (has_tied_ends()).
  double table = 0, table_gradient = 0;

  int kinds() const { return static_cast<int>(memory.size()); }
  /// The kind of stage `s` of `stages`.
  int kind(Stage s, int stages) const {
    if (s == 0) return 0;
    if (s + 1 == stages) return kinds() - 1;
    return kinds() > 2 ? 1 : 0;
  }
  StageCost stage(int kind, int blocks) const;
};

/// Makes the two probes of a layout with a pipeline. Errors: those of the prober.
Result<StageCosts> stage_costs(const Scenario& layout, const Prober& prober);
/// The scenario of the smallest of these probes, which says which layouts share their costs.
Scenario smallest_probe(const Scenario& layout);

}  // namespace lockstep
