// ZB-V: the greedy search of Qi et al. 2023 (section 6) for the order of actions on V-shaped
// placement, within the activations of 1F1B's first rank. A microbatch passes over the ranks four
// times ("legs"): F of the first chunk down, F of the second up, I of the second down, I of the
// first up. After a warm-up, every round puts one I and one F on each rank, and W where the rank
// would wait.
#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "core/base/index_vector.hpp"
#include "core/schedule/search.hpp"

namespace lockstep {
namespace {

enum Leg { ForwardDown, ForwardUp, InputDown, InputUp };

struct WeightsFirst {
  bool weight_before_forward;     // where the gap is shorter than W, but would be the largest yet
  bool weight_before_input_down;  // the same before an I of the second chunk
};

/// Builds the action lists of all ranks, and adds up how long each is idle after its first F.
class GreedyV {
 public:
  /// `approved`: by rank, the idle time of an earlier attempt; -1: none. A rank may be idle for as
  /// long as the largest of them exceeds its own.
  GreedyV(const PipelineShape& shape, WeightsFirst variant,
          const IndexVector<int, double>& approved)
      : shape_(shape),
        variant_(variant),
        approved_(approved),
        most_approved_(*std::max_element(approved.begin(), approved.end())),
        ranks_(shape.p) {
    for (Rank& rank : ranks_) {
      for (IndexVector<Microbatch, double>& ends : rank.ends) ends.resize(shape.m);
    }
  }

  /// Returns false if the search gets stuck: a rank has no room for an F and no W that would make
  /// room, or the input of a pass never comes. Stages of unequal times can do that, because the
  /// rounds go out of step.
  bool run() {
    warm_up();
    for (int round = 0; round < 2 * shape_.m; ++round) {
      for (Rank& rank : ranks_) {
        while (!stuck_ && rank.held - (1 - shape_.kept_after_input) > limit()) weight(rank);
      }
      input_round();
      for (int r = 0; r < shape_.p; ++r) forward_of_round(r);
    }
    for (Rank& rank : ranks_) {
      while (!stuck_ && !rank.pending.empty()) weight(rank);
    }
    return !stuck_;
  }
  double largest_gaps() const { return lockstep::largest_gaps(ranks_); }
  IndexVector<int, double> gaps() const {
    IndexVector<int, double> all;
    for (const Rank& rank : ranks_) all.push_back(rank.gaps);
    return all;
  }
  std::vector<Actions> take() { return take_actions(ranks_); }

 private:
  struct Rank {
    IndexArray<int, int, 4> done{};  // by leg: microbatches that have passed
    IndexArray<int, IndexVector<Microbatch, double>, 4> ends;
    std::deque<Action> pending;  // W, oldest first
    double now = 0;
    double gaps = 0;  // idle since the first F
    double held = 0;  // live activations
    Actions actions;
  };
  double limit() const { return 2 * shape_.p + kActivationRounding; }
  Stage stage_of(Leg leg, int r) const {
    return leg == ForwardDown || leg == InputUp ? r : 2 * shape_.p - 1 - r;
  }
  double time_of(Phase phase, Stage stage) const {
    const StageTimes& times = shape_.times[stage];
    return phase == Phase::F ? times.forward : phase == Phase::I ? times.input : times.weight;
  }

  /// The rank that passes the leg's microbatches on to `r`; -1 on the rank where the leg begins.
  int source(Leg leg, int r) const {
    const bool down = leg == ForwardDown || leg == InputDown;
    return down ? r - 1 : r + 1 < shape_.p ? r + 1 : -1;
  }
  bool sent(Leg leg, int r) const { return ranks_[source(leg, r)].done[leg] > ranks_[r].done[leg]; }
  /// When the next microbatch of the leg arrives at `r`; 0 if the leg begins there or nothing has
  /// been sent.
  double arrival(Leg leg, int r) const {
    const int from = source(leg, r);
    if (from < 0 || !sent(leg, r)) return 0;
    return ranks_[from].ends[leg][ranks_[r].done[leg]] + shape_.p2p;
  }

  void pass(Leg leg, int r) {
    Rank& rank = ranks_[r];
    const Microbatch mb = rank.done[leg];
    stuck_ = stuck_ || mb == shape_.m || (leg > 0 && rank.done[leg - 1] == mb) ||
             (source(leg, r) >= 0 && !sent(leg, r));
    if (stuck_) return;
    const double begin = std::max(rank.now, arrival(leg, r));
    if (rank.done[ForwardDown] > 0) rank.gaps += begin - rank.now;
    const Stage stage = stage_of(leg, r);
    const Phase phase = leg <= ForwardUp ? Phase::F : Phase::I;
    rank.now = rank.ends[leg][mb] = begin + time_of(phase, stage);
    rank.held += phase == Phase::F ? 1 : shape_.kept_after_input - 1;
    rank.actions.push_back({phase, stage, mb});
    if (phase == Phase::I) rank.pending.push_back({Phase::W, stage, mb});
    ++rank.done[leg];
  }
  void weight(Rank& rank) {
    stuck_ = stuck_ || rank.pending.empty();
    if (stuck_) return;
    const Action action = rank.pending.front();
    rank.pending.pop_front();
    rank.now += time_of(Phase::W, action.stage);
    rank.held -= shape_.kept_after_input;
    rank.actions.push_back(action);
  }

  /// Runs as many F as fit before the first one comes back up, the same number on all ranks above.
  /// Then runs both chunks in turn, until no rank has begun fewer microbatches than the one above.
  void warm_up() {
    const int p = shape_.p, m = shape_.m;
    for (int r = 0; r < p; ++r) pass(ForwardDown, r);
    for (int r = p - 1; r >= 0; --r) {
      const Rank& rank = ranks_[r];
      while (!stuck_ && r + 1 < p && rank.done[ForwardDown] < m &&
             rank.held + 2 + 2 * r <= limit() &&
             rank.now + time_of(Phase::F, r) <= arrival(ForwardUp, r)) {
        for (int above = 0; above <= r; ++above) pass(ForwardDown, above);
      }
      pass(ForwardUp, r);
    }
    Leg leg = ForwardDown;
    for (int r = 1; r < p; ++r) {
      const IndexArray<int, int, 4>& done = ranks_[r].done;
      const IndexArray<int, int, 4>& above = ranks_[r - 1].done;
      while (!stuck_ &&
             (done[0] + done[1] < above[0] + above[1] || (done[1] <= above[1] && above[1] < m))) {
        for (int below = p - 1; below >= r; --below) {
          if (ranks_[below].done[leg] < m) pass(leg, below);
        }
        leg = leg == ForwardDown ? ForwardUp : ForwardDown;
      }
    }
  }

  /// Runs one I on every rank. Those that go up come first, from the last rank on, then those that
  /// go down.
  void input_round() {
    std::vector<int> down;
    std::vector<int> up;
    for (int r = 0; r < shape_.p; ++r) {
      const IndexArray<int, int, 4>& done = ranks_[r].done;
      const bool goes_up = done[InputUp] < done[InputDown] &&
                           (r + 1 == shape_.p || sent(InputUp, r) || done[InputDown] == shape_.m);
      (goes_up ? up : down).push_back(r);
    }
    for (auto r = up.rbegin(); r != up.rend(); ++r) {
      fill_gap(InputUp, *r, true);
      pass(InputUp, *r);
    }
    for (const int r : down) {
      fill_gap(InputDown, r, variant_.weight_before_input_down);
      pass(InputDown, r);
    }
  }
  void forward_of_round(int r) {
    Rank& rank = ranks_[r];
    if (rank.done[ForwardUp] == shape_.m) return;
    Leg leg = ForwardDown;
    if (rank.done[ForwardUp] < rank.done[ForwardDown]) {
      if (r + 1 == shape_.p || sent(ForwardUp, r)) {
        leg = ForwardUp;
      } else if (rank.done[ForwardDown] == shape_.m || (r > 0 && !sent(ForwardDown, r))) {
        return;
      }
    }
    while (!stuck_ && rank.held + 1 > limit()) weight(rank);
    fill_gap(leg, r, variant_.weight_before_forward);
    pass(leg, r);
  }

  /// Runs W while the rank waits for the leg's next microbatch. A W that takes longer than the gap
  /// runs only if `eager`, and if waiting would raise the rank's idle time above that of every rank
  /// so far and above what is approved.
  void fill_gap(Leg leg, int r, bool eager) {
    if (source(leg, r) < 0) return;
    Rank& rank = ranks_[r];
    const double ready = arrival(leg, r);
    const auto fits = [&] {
      return rank.now + time_of(Phase::W, rank.pending.front().stage) <= ready;
    };
    while (!stuck_ && !rank.pending.empty() && fits()) weight(rank);
    const double allowed = std::max(largest_gaps(), most_approved_ - approved_[r]) - rank.gaps;
    if (!rank.pending.empty() && eager && ready - rank.now > allowed) weight(rank);
  }

  const PipelineShape& shape_;
  const WeightsFirst variant_;
  const IndexVector<int, double>& approved_;
  const double most_approved_;
  IndexVector<int, Rank> ranks_;
  bool stuck_ = false;
};

}  // namespace

std::vector<Actions> zb_v(const PipelineShape& shape) {
  std::vector<Actions> best;
  double least = std::numeric_limits<double>::infinity();
  for (const WeightsFirst variant :
       {WeightsFirst{true, true}, {false, true}, {true, false}, {false, false}}) {
    // Tries again as long as the result gets better, and approves the gaps that the attempt before
    // could not avoid.
    IndexVector<int, double> approved(shape.p, -1);
    for (double before = std::numeric_limits<double>::infinity();;) {
      GreedyV schedule(shape, variant, approved);
      if (!schedule.run()) break;
      const double gaps = schedule.largest_gaps();
      if (gaps >= before) break;
      before = gaps;
      approved = schedule.gaps();
      if (gaps >= least) continue;
      least = gaps;
      best = schedule.take();
    }
  }
  if (best.empty()) {
    for (int r = 0; r < shape.p; ++r) best.push_back(zbv_zero_bubble(shape, r));
  }
  return best;
}

}  // namespace lockstep
