// Posted run: the actions of a pipeline whose ranks wait in their messages, simulated as a list.
#pragma once

#include <optional>

#include "core/plan/estimate/pipeline_run.hpp"
#include "core/spec/strategy.hpp"

namespace lockstep {

/// As run_pipeline(), of ranks that post what a step sends and what the next one receives between
/// the two, and compute again when all of it is there: together (P2pPosting::Fused), or one by one,
/// sends first (P2pPosting::Blocking). A message goes out when both ends have come to it. Nullopt
/// if ranks wait for each other in a circle; lowering then refuses the layout (pass "post").
std::optional<PipelineRun> run_posted(const Schedule& schedule, const PipelineCost& cost,
                                      bool one_by_one);

/// Whether ranks of the layout wait in their messages until their peers come to them.
bool waits_in_messages(const StrategySpec& strategy);
/// run_posted() of a layout whose ranks wait in their messages, and run_pipeline() of others, and
/// where ranks share devices.
std::optional<PipelineRun> run_as_posted(const Schedule& schedule, const PipelineCost& cost,
                                         const StrategySpec& strategy,
                                         const SharedDevices* shared = nullptr);

}  // namespace lockstep
