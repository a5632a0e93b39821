#include "core/analysis/bubbles.hpp"

#include <algorithm>
#include <utility>

#include "core/analysis/rank_analyses.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// What the rank waits for in a stretch of a gap. Whether that makes it warm-up or cool-down
/// depends on the phase of the schedule, which is considered later (lay_out).
enum class Reason : std::uint8_t { Nothing, Transfer, Message, Collective, Samples, Work };

struct Stretch {
  SimTime begin{}, end{};
  Reason reason = Reason::Nothing;
  SpanIndex blocker = -1;
};

/// The times that divide a rank's step into warm-up, steady state and cool-down.
struct Phases {
  SimTime first_backward = SimTime::max();  // begin
  SimTime last_forward = SimTime::min();    // end
  SimTime last_backward = SimTime::min();   // end
  bool backward = false;                    // the rank has a backward pass
  bool pipeline = false;                    // the rank exchanges messages
};

/// Finds the bubbles of one rank.
class RankBubbles {
 public:
  /// `out` gets the bubbles, unless it is null.
  RankBubbles(const StepGraph& step, const RankWork& work, std::vector<Bubble>* out)
      : step_(step),
        compute_(work.compute),
        transfers_(work.transfers),
        out_(out),
        rank_(work.rank),
        first_(own_from(0)) {
    for (const Busy& w : compute_) note_phase(w);
    phases_.pipeline = std::any_of(transfers_.begin(), transfers_.end(), [&](const Busy& w) {
      return w.span >= 0 && step.other_end(w.span) >= 0;
    });
  }

  TimeByCause find() {
    SimTime from = step_.begin();
    for (std::size_t k = 0; k < compute_.size(); ++k) {
      const Busy& w = compute_[k];
      if (w.span < 0 && (w.begin >= step_.end() || w.end <= w.begin)) continue;
      if (w.begin > from) gap(from, w.begin, own_from(k));
      from = std::max(from, w.end);
    }
    if (step_.end() > from) gap(from, step_.end(), -1);
    return total_;
  }

 private:
  /// The first of this step's compute spans from place k on, which must not decrease. -1: none.
  SpanIndex own_from(std::size_t k) {
    own_ = std::max(own_, k);
    while (own_ < compute_.size() && compute_[own_].span < 0) ++own_;
    return own_ < compute_.size() ? compute_[own_].span : -1;
  }

  void note_phase(const Busy& w) {
    if (w.span < 0) return;
    const Phase phase = step_.phase(w.span);
    if (phase == Phase::F) phases_.last_forward = std::max(phases_.last_forward, w.end);
    if (phase == Phase::B || phase == Phase::I || phase == Phase::W) {
      phases_.backward = true;
      phases_.first_backward = std::min(phases_.first_backward, w.begin);
      phases_.last_backward = std::max(phases_.last_backward, w.end);
    }
  }

  void gap(SimTime begin, SimTime end, SpanIndex next) {
    stretches_.clear();
    if (next >= 0) {
      explain(begin, end, next);
    } else {
      stretches_.push_back({begin, end, Reason::Nothing, -1});
    }
    for (auto s = stretches_.rbegin(); s != stretches_.rend(); ++s) lay_out(*s, next);
  }

  /// Divides the gap before `next` into stretches: goes backwards from `next` through what it
  /// waited for, then through what that waited for, until the begin of the gap.
  void explain(SimTime begin, SimTime end, SpanIndex next) {
    SimTime t = end;
    const auto push = [&](SimTime from, Reason reason, SpanIndex blocker) {
      from = std::max(from, begin);
      if (from < t) stretches_.push_back({from, t, reason, blocker});
      t = std::min(t, from);
    };
    for (SpanIndex i = next; t > begin;) {
      const SpanIndex before = step_.held_by(i);
      if (before < 0 || step_[before].end <= begin ||
          step_.span_class(before) == SpanClass::Compute) {
        push(begin, Reason::Nothing, -1);
        break;
      }
      const Span& s = step_[before];
      push(s.end, Reason::Nothing, -1);
      const bool transfer = step_.span_class(before) == SpanClass::Transfer;
      push(s.active, transfer ? Reason::Transfer : Reason::Work, before);
      if (!transfer && step_.op(before).microbatch >= 0) {  // of a copy
        push(s.begin, Reason::Samples, before);
        i = before;
        continue;
      }
      const bool message = step_.other_end(before) >= 0;
      // Who is late to a message matters to nobody but the list.
      const SpanIndex late = message && out_ == nullptr ? before : step_.last_arrival(before);
      push(s.begin, message ? Reason::Message : Reason::Collective, late == before ? -1 : late);
      i = before;
    }
  }

  /// Appends one stretch as bubbles. Where a transfer of the rank runs, the bubble counts as
  /// exposed communication, whatever the rank waited for.
  void lay_out(const Stretch& s, SpanIndex next) {
    SimTime t = s.begin;
    while (next_transfer_ < transfers_.size() && transfers_[next_transfer_].end <= t) {
      ++next_transfer_;
    }
    for (std::size_t k = next_transfer_; k < transfers_.size(); ++k) {
      const Busy& transfer = transfers_[k];
      if (transfer.begin >= s.end) break;
      if (transfer.end <= std::max(t, transfer.begin)) continue;
      idle(t, std::max(t, transfer.begin), s, next);
      t = std::max(t, transfer.begin);
      const SimTime end = std::min(transfer.end, s.end);
      add({rank_, t, end, BubbleCause::Communication, next,
           s.reason == Reason::Transfer ? s.blocker : transfer.span});
      t = end;
      if (t == s.end) break;
    }
    idle(t, s.end, s, next);
  }

  void idle(SimTime begin, SimTime end, const Stretch& s, SpanIndex next) {
    add({rank_, begin, end, cause(s, next), next, worker(s.blocker)});
  }

  BubbleCause cause(const Stretch& s, SpanIndex next) const {
    if (next < 0) return BubbleCause::CoolDown;
    const bool first = next == first_;
    switch (s.reason) {
      case Reason::Message:
        if (first || (phases_.backward && s.end <= phases_.first_backward)) {
          return BubbleCause::WarmUp;
        }
        return s.begin >= phases_.last_forward ? BubbleCause::CoolDown : BubbleCause::Peer;
      case Reason::Collective:
        if (s.blocker < 0) return BubbleCause::Other;
        return phases_.pipeline && s.begin >= phases_.last_backward ? BubbleCause::CoolDown
                                                                    : BubbleCause::Peer;
      case Reason::Samples:
        return BubbleCause::Data;
      case Reason::Nothing:
        return first ? BubbleCause::WarmUp : BubbleCause::Other;
      case Reason::Transfer:
      case Reason::Work:
        return BubbleCause::Other;
    }
    return BubbleCause::Other;
  }

  /// The compute span for which another rank has not come to the transfer yet, if there is one;
  /// otherwise that rank's side of the transfer itself (`blocker`).
  SpanIndex worker(SpanIndex blocker) const {
    if (out_ == nullptr || blocker < 0 || step_[blocker].rank == rank_) return blocker;
    const SpanIndex before = step_.held_by(blocker);
    return before >= 0 && step_.span_class(before) == SpanClass::Compute ? before : blocker;
  }

  void add(const Bubble& bubble) {
    if (bubble.begin >= bubble.end) return;
    total_[bubble.cause] += bubble.length();
    if (out_ == nullptr) return;
    if (!out_->empty()) {
      Bubble& last = out_->back();
      if (last.rank == rank_ && last.end == bubble.begin && last.cause == bubble.cause &&
          last.next == bubble.next && last.blocker == bubble.blocker) {
        last.end = bubble.end;
        return;
      }
    }
    out_->push_back(bubble);
  }

  const StepGraph& step_;
  const std::vector<Busy>&compute_, &transfers_;
  std::vector<Bubble>* out_;
  const Rank rank_;
  std::size_t own_ = 0;             // into compute_: see own_from()
  const SpanIndex first_;           // the first of this step's compute spans; -1: none
  std::size_t next_transfer_ = 0;   // into transfers_; those before it ended before the stretch
  std::vector<Stretch> stretches_;  // of the gap at hand, from its end to its begin
  Phases phases_;
  TimeByCause total_{};
};

SimTime sum(const TimeByCause& times) {
  SimTime total{};
  for (const SimTime t : times) total += t;
  return total;
}

double ratio(SimTime a, SimTime b) {
  return b > SimTime{} ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 0;
}

}  // namespace

std::string_view to_string(BubbleCause cause) {
  constexpr IndexArray<BubbleCause, std::string_view, kNumBubbleCauses> kNames = {
      "warm-up",   "waiting for a peer", "exposed communication",
      "cool-down", "waiting for data",   "other"};
  return kNames[cause];
}

SimTime Bubbles::idle() const { return sum(total); }

double Bubbles::fraction() const {
  return ratio(idle(), static_cast<std::int64_t>(by_rank.size()) * makespan);
}

double Bubbles::over_ideal() const { return ratio(least_idle, makespan - least_idle); }

TimeByCause find_bubbles(const StepGraph& step, const RankWork& work, std::vector<Bubble>* out) {
  return RankBubbles(step, work, out).find();
}

Bubbles find_bubbles(const StepGraph& step) { return analyze_ranks(step, true).bubbles; }
Bubbles sum_bubbles(const StepGraph& step) { return analyze_ranks(step, false).bubbles; }

const Bubble* bubble_at(const Bubbles& bubbles, const StepGraph& step, Rank rank, SimTime t) {
  const std::pair<Rank, SimTime> key{step.trace().same_as[rank], t};
  auto after = std::upper_bound(
      bubbles.list.begin(), bubbles.list.end(), key,
      [](const auto& value, const Bubble& b) { return value < std::pair(b.rank, b.begin); });
  if (after == bubbles.list.begin()) return nullptr;
  --after;
  return after->rank == key.first && t < after->end ? &*after : nullptr;
}

std::string describe(const StepGraph& step, SpanIndex span) {
  const TraceOp& op = step.op(span);
  const bool compute = step.span_class(span) == SpanClass::Compute;
  std::string text = compute && op.stage >= 0 ? step.kind(span) : step.name(span);
  std::replace(text.begin(), text.end(), '_', ' ');
  if (op.microbatch >= 0) text += " of microbatch " + std::to_string(op.microbatch);
  if (op.stage >= 0) text += " on stage " + std::to_string(op.stage);
  if (op.stage < 0 && op.layer >= 0) text += " of layer " + std::to_string(op.layer);
  return text;
}

std::string describe(const StepGraph& step, const Bubble& bubble) {
  if (bubble.blocker < 0) {
    if (bubble.cause == BubbleCause::Communication) return "waits while another step transfers";
    return bubble.next < 0 ? "done with the step, others are not" : "nothing to do";
  }
  if (bubble.cause == BubbleCause::Data) {
    return "waits until the data loader has microbatch " +
           std::to_string(step.op(bubble.blocker).microbatch);
  }
  const Rank rank = step[bubble.blocker].rank;
  return "waits for " + describe(step, bubble.blocker) +
         (rank == bubble.rank ? "" : " (rank " + std::to_string(rank) + ")");
}

}  // namespace lockstep
