// Schedules that run a forward and a backward pass as one, so that each hides the communication of
// the other (DeepSeek-AI 2024, DualPipe; the V form holds one copy of the model).
#include <algorithm>
#include <array>
#include <deque>

#include "core/schedule/generators.hpp"

namespace lockstep {
namespace {

/// Passes of the two chunks of a rank, microbatches counted by chunk; W in the order of the I.
class TwoChunks {
 public:
  struct Chunk {
    Stage stage;
    Microbatch first;
  };
  TwoChunks(Chunk first, Chunk second) : chunks_{first, second} {}

  void forward(int chunk) { actions_.push_back(next(Phase::F, chunk)); }
  /// Whole, or its I alone: the W is then due.
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
    const auto c = static_cast<std::size_t>(chunk);
    int& count = (phase == Phase::F ? forwards_ : backwards_)[c];
    return {phase, chunks_[c].stage, chunks_[c].first + count++};
  }
  std::array<Chunk, 2> chunks_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Action> due_;
  Actions actions_;
};

/// The eight phases of DualPipe on the `rank`-th of `ranks` ranks from one end of a pipeline to its
/// middle, where the two chunks follow each other; `rounds` microbatches of each chunk. The first
/// pair in the middle does not overlap: its backward pass needs that forward pass.
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

/// Two copies of the model in opposite directions, half of the microbatches each: stages 0 to p-1
/// down the ranks, p to 2p-1 up. Each rank starts with the one whose end is nearer.
Actions dual_pipe(const PipelineShape& shape, int rank) {
  const int p = shape.p;
  const TwoChunks::Chunk down{rank, 0};
  const TwoChunks::Chunk up{2 * p - 1 - rank, shape.m / 2};
  const bool upper = rank < p / 2;
  return eight_phases(upper ? TwoChunks(down, up) : TwoChunks(up, down), p / 2,
                      std::min(rank, p - 1 - rank), shape.m / 2);
}

}  // namespace lockstep
