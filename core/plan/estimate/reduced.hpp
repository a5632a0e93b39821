// Reduced scenarios: a layout with fewer blocks and microbatches, which a probe runs in its place.
#pragma once

#include <cstdint>

#include "core/model/model.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// The layout on as many ranks as it has, without a pipeline, with `blocks` blocks and
/// `microbatches` passes. Requires a layout without a pipeline.
Scenario reduced_step(const Scenario& layout, std::int64_t blocks, int microbatches);

/// A pipeline of `stages` stages of the layout with `blocks` blocks each, on the ranks of that many
/// of the layout's stages. Every stage runs `microbatches` forward passes, and then their backward
/// passes, so that all of them are in flight at once. Requires a layout with a pipeline.
Scenario reduced_pipeline(const Scenario& layout, int stages, int blocks, int microbatches);

/// Whether the first and the last stage of a layout lie on one rank and share a table, of which the
/// rank has one copy. A probe, whose stages lie apart, then has two tables instead of one that is
/// shared between ranks.
bool has_tied_ends(const Scenario& layout);

/// The actions of that pipeline.
Schedule probe_schedule(int stages, int microbatches, bool split);

/// Whether backward passes of the layout's schedule are split into I and W.
bool splits_backward(const Scenario& layout);

/// Whether some of these schedules' backward passes are split, and others whole.
bool mixes_backward(const Scenario& layout);
/// The layout with another schedule, none of whose backward passes are split.
Scenario with_whole_backward(const Scenario& layout);

/// After how many blocks the kinds of blocks repeat themselves: those with experts, and those that
/// are recomputed.
int period_of_blocks(const Scenario& layout);
/// After how many blocks at the begin they do so: those without experts, and those that multiply in
/// 16 bits beside others in 8, up to whole periods.
int blocks_before_period(const Scenario& layout);
/// How many blocks at the end are no part of whole periods because some of them multiply in 16
/// bits.
int blocks_after_period(const Scenario& layout);
/// The layout with those blocks and one period, for its functions. One of a vision model stays as
/// it is.
Scenario one_period(const Scenario& layout);
/// Makes of the model of one_period(layout) one with all layers of the layout. Blocks at the same
/// place of a period share units: the names and numbers of all parameters take long to make.
void repeat_blocks(Model& model, const Scenario& layout);

/// What a layer with such a forward pass keeps of a microbatch for its backward pass. 0 if it is
/// computed again from its begin, and keeps its input.
double kept_bytes(const std::vector<LayerStep>& forward);

}  // namespace lockstep
