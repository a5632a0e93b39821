// Schedules that run a forward and a backward pass as one, so that each hides the communication of
// the other (DualPipe, DeepSeek-AI 2024; DualPipeV holds one copy of the model instead of two).
#include <algorithm>
#include <array>
#include <deque>

#include "core/base/index_vector.hpp"
#include "core/schedule/generators.hpp"

namespace lockstep {
namespace {

/// Builds the actions of a rank that has two chunks. Microbatches are counted for each chunk, and W
/// run in the order of their I.
class TwoChunks {
 public:
  struct Chunk {
    Stage stage;
    Microbatch first;
  };
  TwoChunks(Chunk first, Chunk second) : chunks_{first, second} {}

  void forward(int chunk) { actions_.push_back(next(Phase::F, chunk)); }
  /// The whole backward pass, or with `split` its I alone, after which its W is due.
  void backward(int chunk, bool split) {
    Action action = next(Phase::B, chunk);
    if (split) {
      action.phase = Phase::I;
      due_.push_back(action);
    }
    actions_.push_back(action);
  }
  void weight() {
    if (due_.empty()) return;
    Action action = due_.front();
    due_.pop_front();
    action.phase = Phase::W;
    actions_.push_back(action);
  }
  void overlapped(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    actions_.back().overlaps_next = true;
    backward(backward_chunk, false);
  }
  Actions take() { return std::move(actions_); }

 private:
  Action next(Phase phase, int chunk) {
    int& count = (phase == Phase::F ? forwards_ : backwards_)[chunk];
    return {phase, chunks_[chunk].stage, chunks_[chunk].first + count++};
  }
  IndexArray<int, Chunk, 2> chunks_;
  IndexArray<int, int, 2> forwards_{}, backwards_{};
  std::deque<Action> due_;
  Actions actions_;
};

/// The eight phases of DualPipe for the `rank`-th of `ranks` ranks, counted from one end of the
/// pipeline to its middle, where one chunk's output is the other's input. Each chunk runs `rounds`
/// microbatches. On the rank in the middle, the first pair does not run as one, because its
/// backward pass needs its forward pass.
Actions eight_phases(TwoChunks run, int ranks, int rank, int rounds) {
  const int below = ranks - rank - 1;
  for (int i = 0; i < 2 * below; ++i) run.forward(0);
  for (int i = 0; i < rank + 1; ++i) {
    run.forward(0);
    run.forward(1);
  }
  for (int i = 0; i < below; ++i) {
    run.backward(1, true);
    run.weight();
    run.forward(1);
  }
  for (int i = 0; i < rounds - 2 * ranks + rank + 1; ++i) {
    if (i == 0 && below == 0) {
      run.forward(0);
      run.backward(1, false);
    } else {
      run.overlapped(0, 1);
    }
    run.overlapped(1, 0);
  }
  for (int i = 0; i < below; ++i) {
    run.backward(1, false);
    run.overlapped(1, 0);
  }
  bool split = false;
  for (int i = 0; i < rank + 1; ++i) {
    const bool now = i == (rank + 1) / 2;
    if (now && rank % 2 == 1) split = true;
    run.backward(1, split);
    if (now && rank % 2 == 0) split = true;
    run.backward(0, split);
  }
  for (int i = 0; i < below; ++i) {
    run.weight();
    run.backward(0, true);
  }
  for (int i = 0; i < rank + 1; ++i) run.weight();
  return run.take();
}

}  // namespace

Actions dual_pipe_v(const PipelineShape& shape, int rank) {
  const int p = shape.p;
  return eight_phases(TwoChunks({rank, 0}, {2 * p - 1 - rank, 0}), p, rank, shape.m);
}

/// Two copies of the model run in opposite directions, each with half of the microbatches: stages 0
/// to p-1 go down the ranks, stages p to 2p-1 go up. A rank starts with the copy whose first stage
/// is nearer.
Actions dual_pipe(const PipelineShape& shape, int rank) {
  const int p = shape.p;
  const TwoChunks::Chunk down{rank, 0};
  const TwoChunks::Chunk up{2 * p - 1 - rank, shape.m / 2};
  const bool upper = rank < p / 2;
  return eight_phases(upper ? TwoChunks(down, up) : TwoChunks(up, down), p / 2,
                      std::min(rank, p - 1 - rank), shape.m / 2);
}

}  // namespace lockstep
