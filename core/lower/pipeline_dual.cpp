// Schedules that run a forward and a backward pass as one, so that each hides the communication of
// the other (DeepSeek-AI 2024, DualPipe; the V form holds one copy of the model).
#include <array>
#include <deque>

#include "core/lower/schedules.hpp"

namespace lockstep {
namespace {

/// Passes of the two chunks of a rank, microbatches counted by chunk; W in the order of the I.
class TwoChunks {
 public:
  TwoChunks(Stage first, Stage second) : stages_{first, second} {}

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
    return {phase, stages_[c], count++};
  }
  std::array<Stage, 2> stages_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Action> due_;
  Actions actions_;
};

}  // namespace

/// The eight phases of DualPipe with p in place of p/2. The first pair of the last rank does not
/// overlap: its backward pass needs that forward pass.
Actions dual_pipe_v(const PipelineShape& shape, int rank) {
  const int p = shape.p;
  const int below = p - rank - 1;
  TwoChunks run(rank, 2 * p - 1 - rank);
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
  for (int i = 0; i < shape.m - 2 * p + rank + 1; ++i) {
    if (i == 0 && rank == p - 1) {
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

}  // namespace lockstep
