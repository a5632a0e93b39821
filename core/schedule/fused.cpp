// Schedules whose backward pass is one piece.
#include <algorithm>

#include "core/base/index_vector.hpp"
#include "core/schedule/generators.hpp"

namespace lockstep {

/// GPipe (Huang et al. 2019): all forward passes, then all backward passes, both in microbatch
/// order.
Actions gpipe(const PipelineShape& shape, int rank) {
  Actions actions;
  for (int i = 0; i < shape.m; ++i) actions.push_back({Phase::F, rank, i});
  for (int i = 0; i < shape.m; ++i) actions.push_back({Phase::B, rank, i});
  return actions;
}

namespace {

/// Runs `warmup` forward passes, then one forward and one backward pass in turn, then the remaining
/// backward passes.
Actions in_turn(const std::vector<Pass>& forward, const std::vector<Pass>& backward, int warmup) {
  Actions actions;
  std::size_t f = 0;
  std::size_t b = 0;
  const auto run = [&](Phase phase, const Pass& pass) {
    actions.push_back({phase, pass.stage, pass.microbatch});
  };
  while (f < std::min(to_size(warmup), forward.size())) {
    run(Phase::F, forward[f++]);
  }
  while (f < forward.size()) {
    run(Phase::F, forward[f++]);
    run(Phase::B, backward[b++]);
  }
  while (b < backward.size()) run(Phase::B, backward[b++]);
  return actions;
}

}  // namespace

std::vector<Pass> interleaved_passes(const PipelineShape& shape, int rank, bool backward) {
  std::vector<Pass> passes;
  for (int begin = 0; begin < shape.m; begin += shape.group) {
    const int end = std::min(shape.m, begin + shape.group);
    for (int k = 0; k < shape.v; ++k) {
      const int chunk = backward ? shape.v - 1 - k : k;
      for (int i = begin; i < end; ++i) passes.push_back({chunk * shape.p + rank, i});
    }
  }
  return passes;
}

/// 1F1B with a flush at the end of the step (PipeDream-Flush, Narayanan et al. 2021a).
Actions one_f_one_b(const PipelineShape& shape, int rank) {
  PipelineShape whole = shape;
  whole.group = shape.m;
  return in_turn(interleaved_passes(whole, rank, false), interleaved_passes(whole, rank, true),
                 shape.p - 1 - rank + shape.lag);
}

/// Interleaved 1F1B (Narayanan et al. 2021b). Rank r warms up with 2(p-1-r) + (v-1)·group passes.
/// That is p-1-r more than it needs, so that a transfer has the time of a whole pass.
Actions interleaved_1f1b(const PipelineShape& shape, int rank) {
  return in_turn(interleaved_passes(shape, rank, false), interleaved_passes(shape, rank, true),
                 2 * (shape.p - 1 - rank) + (shape.v - 1) * shape.group + shape.lag);
}

/// Breadth-first pipeline parallelism (Lamy-Poirier 2022): each chunk runs all microbatches before
/// the next chunk does. The backward pass does the same with chunks and microbatches in reverse
/// order.
Actions looped_bfs(const PipelineShape& shape, int rank) {
  Actions actions;
  for (int k = 0; k < shape.v; ++k) {
    for (int i = 0; i < shape.m; ++i) actions.push_back({Phase::F, k * shape.p + rank, i});
  }
  for (int k = shape.v - 1; k >= 0; --k) {
    for (int i = shape.m - 1; i >= 0; --i) actions.push_back({Phase::B, k * shape.p + rank, i});
  }
  return actions;
}

}  // namespace lockstep
