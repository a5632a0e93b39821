// Schedules whose backward pass is split into I, for which the stage before waits, and W, which may
// fill what would be a bubble (Qi et al. 2023, 2024).
#include <algorithm>

#include "core/base/index_vector.hpp"
#include "core/schedule/generators.hpp"

namespace lockstep {
namespace {

/// After `warmup` forward passes, runs one F and one I in turn. From the I number `delay` on, each
/// I is followed by the oldest W that is due; the remaining W come last.
Actions split_in_turn(const std::vector<Pass>& forward, const std::vector<Pass>& backward,
                      int warmup, int delay) {
  Actions actions;
  const auto run = [&](Phase phase, const Pass& pass) {
    actions.push_back({phase, pass.stage, pass.microbatch});
  };
  std::size_t f = 0;
  std::size_t w = 0;
  while (f < std::min(to_size(warmup), forward.size())) {
    run(Phase::F, forward[f++]);
  }
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (f < forward.size()) run(Phase::F, forward[f++]);
    run(Phase::I, backward[i]);
    if (i >= to_size(delay)) run(Phase::W, backward[w++]);
  }
  while (w < backward.size()) run(Phase::W, backward[w++]);
  return actions;
}

Actions split_1f1b(const PipelineShape& shape, int rank, int warmup, int delay) {
  PipelineShape whole = shape;
  whole.group = shape.m;
  return split_in_turn(interleaved_passes(whole, rank, false),
                       interleaved_passes(whole, rank, true), warmup, delay);
}

}  // namespace

/// ZB-H1 holds W back just so far that memory stays at the p activations of 1F1B's first rank.
Actions zb_h1(const PipelineShape& shape, int rank) {
  return split_1f1b(shape, rank, shape.p - 1 - rank, rank);
}

/// ZB-H2 warms up twice as long. That takes 2p-1 activations on every rank, and leaves no bubble
/// where F, I and W take equal times, if ranks end their steps one after the other.
Actions zb_h2(const PipelineShape& shape, int rank) {
  return split_1f1b(shape, rank, 2 * (shape.p - 1 - rank), 2 * rank);
}

/// PyTorch's ScheduleInterleavedZeroBubble ("ZB1P" over several chunks).
Actions interleaved_zero_bubble(const PipelineShape& shape, int rank) {
  return split_in_turn(interleaved_passes(shape, rank, false),
                       interleaved_passes(shape, rank, true),
                       (shape.p - 1 - rank) + (shape.v - 1) * shape.group, rank);
}

/// PyTorch's ScheduleZBVZeroBubble: two chunks per rank, down the ranks and up again. It has no
/// bubble if F, I and W take equal times and there are at least 2p-1 microbatches.
Actions zbv_zero_bubble(const PipelineShape& shape, int rank) {
  const int p = shape.p;
  const int m = std::max(2 * p - 1, shape.m);  // microbatches beyond shape.m are left out below
  const Stage stages[2] = {rank, 2 * p - 1 - rank};
  Actions actions;
  int next[2][4] = {};  // by chunk and phase
  const auto run = [&](Phase phase, int chunk) {
    const int mb = next[chunk][static_cast<int>(phase)]++;
    if (mb < shape.m) actions.push_back({phase, stages[chunk], mb});
  };
  const auto done = [&](Phase phase, int chunk) { return next[chunk][static_cast<int>(phase)]; };
  for (int i = 0; i < 2 * (p - rank) - 1; ++i) run(Phase::F, 0);
  for (int i = 0; i < rank; ++i) {
    run(Phase::F, 1);
    run(Phase::F, 0);
  }
  const auto last_chunk = [&] {
    run(Phase::F, 1);
    run(Phase::I, 1);
    run(Phase::W, 1);
  };
  for (int i = 0; i < p - rank; ++i) last_chunk();
  while (done(Phase::F, 1) < m) {
    if (done(Phase::F, 0) < m) run(Phase::F, 0);
    run(Phase::I, 0);
    run(Phase::W, 0);
    last_chunk();
  }
  for (int i = 0; i < rank; ++i) {
    run(Phase::I, 0);
    run(Phase::I, 1);
  }
  for (int i = 0; i < p - rank; ++i) {
    run(Phase::I, 0);
    run(Phase::W, 0);
  }
  while (done(Phase::W, 1) < done(Phase::I, 1)) run(Phase::W, 1);
  while (done(Phase::W, 0) < done(Phase::I, 0)) run(Phase::W, 0);
  return actions;
}

}  // namespace lockstep
