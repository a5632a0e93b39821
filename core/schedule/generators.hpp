// Schedules: what each pipeline rank does, in order. A schedule is a row of the table in
// pipeline.cpp: a function from a shape, and mostly a rank, to actions.
#pragma once

#include "core/schedule/schedule.hpp"

namespace lockstep {

/// Times of one virtual stage and microbatch, in any one unit.
struct StageTimes {
  double forward = 1, input = 1, weight = 1;
};

struct PipelineShape {
  int p = 1;      // ranks
  int v = 1;      // virtual stages per rank
  int m = 1;      // microbatches
  int group = 1;  // interleaved schedules: microbatches of one chunk that follow each other
  // For schedules that are searched:
  std::vector<StageTimes> times = {};  // by virtual stage
  double p2p = 0;                      // of a message
  double kept_after_input = 1;         // part of an activation that lives on from I to W, in (0, 1]
};
using RankSchedule = Actions (*)(const PipelineShape& shape, int rank);

// Backward in one piece: pipeline_fused.cpp.
Actions gpipe(const PipelineShape& shape, int rank);
Actions one_f_one_b(const PipelineShape& shape, int rank);
Actions interleaved_1f1b(const PipelineShape& shape, int rank);
Actions looped_bfs(const PipelineShape& shape, int rank);

// Backward split into I and W: pipeline_split.cpp.
Actions zb_h1(const PipelineShape& shape, int rank);
Actions zb_h2(const PipelineShape& shape, int rank);
Actions interleaved_zero_bubble(const PipelineShape& shape, int rank);
Actions zbv_zero_bubble(const PipelineShape& shape, int rank);

// Forward and backward run as one: pipeline_dual.cpp.
Actions dual_pipe_v(const PipelineShape& shape, int rank);
Actions dual_pipe(const PipelineShape& shape, int rank);

// Searched, under a limit of p or 2p live activations: pipeline_search.cpp.
std::vector<Actions> zb_1p(const PipelineShape& shape);
std::vector<Actions> zb_2p(const PipelineShape& shape);
std::vector<Actions> zb_v(const PipelineShape& shape);  // pipeline_search_v.cpp

// A building block per microbatch, compacted: pipeline_controllable.cpp.
std::vector<Actions> v_half(const PipelineShape& shape);
std::vector<Actions> v_min(const PipelineShape& shape);

/// The k-th pass of an interleaved schedule over looped stages: for each group of microbatches,
/// for each chunk (`backward`: from the last), each microbatch.
struct Pass {
  Stage stage;
  Microbatch microbatch;
};
std::vector<Pass> interleaved_passes(const PipelineShape& shape, int rank, bool backward);

}  // namespace lockstep
