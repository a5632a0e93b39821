// Generators: functions from a shape, and mostly a rank, to actions. The table in schedules.hpp
// says which of them makes which schedule.
#pragma once

#include <vector>

#include "core/base/index_vector.hpp"
#include "core/schedule/schedule.hpp"

namespace lockstep {

/// Times of F, I and W of one virtual stage and microbatch. Any scale will do, if all times have
/// the same one.
struct StageTimes {
  double forward = 1, input = 1, weight = 1;
};

struct PipelineShape {
  int p = 1;      // ranks
  int v = 1;      // virtual stages per rank
  int m = 1;      // microbatches
  int group = 1;  // interleaved schedules: how many microbatches a chunk runs in a row
  int lag = 0;    // 1F1B: how many microbatches more are in flight than it needs
  // Only for the schedules that are searched, and for with_vocabulary:
  IndexVector<Stage, StageTimes> times = {};  // by virtual stage
  double p2p = 0;                             // time of a message
  double kept_after_input = 1;  // the part of an activation that is kept from I to W, in (0, 1]
};
using RankSchedule = Actions (*)(const PipelineShape& shape, int rank);
using Scheduler = std::vector<Actions> (*)(const PipelineShape& shape);

/// Turns a generator of one rank's actions into one of all ranks.
template <RankSchedule of_rank>
std::vector<Actions> by_rank(const PipelineShape& shape) {
  std::vector<Actions> all;
  for (int r = 0; r < shape.p; ++r) all.push_back(of_rank(shape, r));
  return all;
}

// Backward passes in one piece (fused.cpp).
Actions gpipe(const PipelineShape& shape, int rank);
Actions one_f_one_b(const PipelineShape& shape, int rank);
Actions interleaved_1f1b(const PipelineShape& shape, int rank);
Actions looped_bfs(const PipelineShape& shape, int rank);

// Backward passes split into I and W (split.cpp).
Actions zb_h1(const PipelineShape& shape, int rank);
Actions zb_h2(const PipelineShape& shape, int rank);
Actions interleaved_zero_bubble(const PipelineShape& shape, int rank);
Actions zbv_zero_bubble(const PipelineShape& shape, int rank);

// Forward and backward passes that run as one (dual.cpp).
Actions dual_pipe_v(const PipelineShape& shape, int rank);
Actions dual_pipe(const PipelineShape& shape, int rank);

// Searched under a limit of p or 2p live activations (search.cpp).
std::vector<Actions> zb_1p(const PipelineShape& shape);
std::vector<Actions> zb_2p(const PipelineShape& shape);
std::vector<Actions> zb_v(const PipelineShape& shape);  // search_v.cpp

// A building block for each microbatch, then compacted (controllable.cpp).
std::vector<Actions> v_half(const PipelineShape& shape);
std::vector<Actions> v_min(const PipelineShape& shape);

/// `base`, a schedule of whole backward passes, between an embedding and an output layer that all
/// ranks share: stages 0 and p·v + 1, so that the base's stages are counted from 1, as
/// `shape.times` are. The passes of the two ends are put where they come up if all passes take
/// their times (vocabulary.cpp).
Schedule with_vocabulary(const Schedule& base, const PipelineShape& shape);

/// One pass of an interleaved schedule. interleaved_passes lists those of a rank in order: for each
/// group of microbatches, for each chunk (the last one first if `backward`), each microbatch of the
/// group.
struct Pass {
  Stage stage;
  Microbatch microbatch;
};
std::vector<Pass> interleaved_passes(const PipelineShape& shape, int rank, bool backward);

}  // namespace lockstep
