// ZB-1p and ZB-2p: the greedy search of Qi et al. 2023 for the order of F, I and W under a limit of
// live activations. F takes one activation, I gives back the part that W does not need, and W the
// rest. Eight variants are tried, and the one whose longest stage is shortest is kept.
#include "core/schedule/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

struct Variant {
  bool gap_before_first_i;  // stop packing F as soon as one would delay the first I
  bool hold_forward;        // leave out an F that the next stage does not need yet
  bool fill_small_gaps;     // put W also into gaps that stay below the largest of all stages
};

/// Builds the action lists of all ranks microbatch by microbatch, and keeps track of their times.
class GreedySchedule {
 public:
  GreedySchedule(const PipelineShape& shape, double limit, Variant variant)
      : shape_(shape), limit_(limit), variant_(variant), ranks_(shape.p) {
    for (Rank& rank : ranks_) {
      rank.forward_end.resize(shape.m);
      rank.input_end.resize(shape.m);
    }
  }

  void run() {
    warm_up();
    for (int mb = 1; mb < shape_.m; ++mb) {
      forward_round();
      for (int s = shape_.p - 1; s >= 0; --s) {
        Rank& rank = ranks_[s];
        if (s + 1 < shape_.p) fill_gap(s, ranks_[s + 1].input_end[mb] + shape_.p2p);
        if (s == 0 && rank.forwards == shape_.m) {
          while (rank.weights < rank.inputs) weight(s);
        }
        input(s);
      }
    }
    for (int s = 0; s < shape_.p; ++s) {
      while (ranks_[s].weights < shape_.m) weight(s);
    }
  }
  double longest_stage() const {
    double longest = 0;
    for (const Rank& rank : ranks_) longest = std::max(longest, rank.end - rank.begin);
    return longest;
  }
  std::vector<Actions> take() { return take_actions(ranks_); }

 private:
  struct Rank {
    int forwards = 0, inputs = 0, weights = 0;
    double begin = 0, end = 0;
    double gaps = 0;  // idle since the first F
    IndexVector<Microbatch, double> forward_end, input_end;
    Actions actions;
  };
  const StageTimes& times(int s) const { return shape_.times[s]; }

  /// By how many activations one more F would exceed the limit.
  double excess(const Rank& rank) const {
    const double kept = shape_.kept_after_input;
    return rank.forwards + 1 - rank.inputs * (1 - kept) - rank.weights * kept - limit_ -
           kActivationRounding;
  }
  void start(Rank& rank, double ready) {
    if (rank.end < ready) {
      if (rank.forwards > 0) rank.gaps += ready - rank.end;
      rank.end = ready;
    }
  }
  void forward(int s) {
    Rank& rank = ranks_[s];
    const int mb = rank.forwards;
    if (s > 0) start(rank, ranks_[s - 1].forward_end[mb] + shape_.p2p);
    if (mb == 0) rank.begin = rank.end;
    rank.end += times(s).forward;
    rank.forward_end[mb] = rank.end;
    rank.actions.push_back({Phase::F, s, rank.forwards++});
  }
  void input(int s) {
    Rank& rank = ranks_[s];
    const int mb = rank.inputs;
    if (s + 1 < shape_.p) start(rank, ranks_[s + 1].input_end[mb] + shape_.p2p);
    rank.end += times(s).input;
    rank.input_end[mb] = rank.end;
    rank.actions.push_back({Phase::I, s, rank.inputs++});
  }
  void weight(int s) {
    Rank& rank = ranks_[s];
    rank.end += times(s).weight;
    rank.actions.push_back({Phase::W, s, rank.weights++});
  }

  /// Runs the first F on every rank, then as many more as fit before the first I could begin (on
  /// each rank fewer than on the one before, or all), then the first I on every rank.
  void warm_up() {
    for (int s = 0; s < shape_.p; ++s) forward(s);
    IndexVector<Stage, int> extra(shape_.p, 0);
    double first_input = 0;  // when the first I of the next stage could end
    for (int s = shape_.p - 1; s >= 0; --s) {
      double end = ranks_[s].end;
      const double ready = s + 1 < shape_.p ? first_input + shape_.p2p : end;
      const auto room = [&](int more) { return 2 + more <= limit_ && 1 + more < shape_.m; };
      while (s + 1 < shape_.p && room(extra[s])) {
        if (variant_.gap_before_first_i ? end + times(s).forward > ready : end >= ready) break;
        end += times(s).forward;
        ++extra[s];
      }
      first_input = std::max(end, ready) + times(s).input;
    }
    for (int s = 1; s < shape_.p; ++s) {
      // A rank can only run an F whose input its predecessor has sent by then. Where that one runs
      // all its F before its first I, so may this one.
      const int before = extra[s - 1];
      if (1 + before < shape_.m) extra[s] = std::min(extra[s], std::max(0, before - 1));
    }
    for (int s = 0; s < shape_.p; ++s) {
      for (int i = 0; i < extra[s]; ++i) forward(s);
    }
    for (int s = shape_.p - 1; s >= 0; --s) input(s);
  }

  /// Runs at most one F on each rank. A rank that leaves it out keeps the ranks before it from
  /// running ahead.
  void forward_round() {
    IndexVector<Stage, bool> runs(shape_.p);
    for (int s = shape_.p - 1; s >= 0; --s) {
      runs[s] = ranks_[s].forwards < shape_.m && !holds_forward(s) &&
                (s + 1 == shape_.p || runs[s + 1] || ranks_[s + 1].forwards == shape_.m);
    }
    for (int s = 0; s < shape_.p; ++s) {
      if (!runs[s]) continue;
      while (excess(ranks_[s]) > 0) weight(s);
      if (s > 0) {
        const double ready = ranks_[s - 1].forward_end[ranks_[s].forwards] + shape_.p2p;
        fill_gap(s, ready);
      }
      forward(s);
    }
  }

  /// True if stage s should leave out its F in this round: the next stage is at least two forward
  /// passes behind, and gets the input as well from an F after the coming I.
  bool holds_forward(int s) const {
    if (!variant_.hold_forward || s + 1 == shape_.p) return false;
    const Rank& rank = ranks_[s];
    const Rank& next = ranks_[s + 1];
    if (rank.forwards < next.forwards + 2) return false;
    const double wanted = next.end + times(s + 1).forward + times(s + 1).input + shape_.p2p;
    if (rank.end >= wanted) return true;
    const double first = std::ceil(std::max(0.0, excess(rank)) / shape_.kept_after_input);
    const double cost =
        times(s).forward + first * times(s).weight;  // with the W that must free memory first
    return rank.end + cost > wanted && wanted - rank.end <= largest_gaps(ranks_) - rank.gaps;
  }

  /// Runs W while the rank has nothing else to do until `ready`. A W that takes longer than the
  /// remaining gap runs only if waiting would make the rank's idle time the largest of all, or if
  /// the variant says so.
  void fill_gap(int s, double ready) {
    Rank& rank = ranks_[s];
    while (rank.weights < rank.inputs && rank.end + times(s).weight <= ready) weight(s);
    if (rank.weights == rank.inputs || rank.end >= ready) return;
    const bool small = ready - rank.end <= largest_gaps(ranks_) - rank.gaps;
    if (!small || variant_.fill_small_gaps) weight(s);
  }

  const PipelineShape& shape_;
  const double limit_;
  const Variant variant_;
  IndexVector<Stage, Rank> ranks_;
};

}  // namespace

namespace {

std::vector<Actions> search_zero_bubble(const PipelineShape& shape, double limit) {
  std::vector<Actions> best;
  double shortest = std::numeric_limits<double>::infinity();
  for (int v = 0; v < 8; ++v) {
    GreedySchedule schedule(shape, limit, {(v & 1) != 0, (v & 2) != 0, (v & 4) != 0});
    schedule.run();
    if (schedule.longest_stage() >= shortest) continue;
    shortest = schedule.longest_stage();
    best = schedule.take();
  }
  return best;
}

}  // namespace

std::vector<Actions> zb_1p(const PipelineShape& shape) {
  return search_zero_bubble(shape, shape.p);
}
std::vector<Actions> zb_2p(const PipelineShape& shape) {
  return search_zero_bubble(shape, 2 * shape.p);
}

}  // namespace lockstep
