#include "core/analysis/critical_path.hpp"

#include <algorithm>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

class Path {
 public:
  explicit Path(const StepGraph& step) : step_(step), visited_(step.size(), false) {}

  std::vector<PathSegment> trace_back() {
    if (step_.makespan() <= SimTime{}) return {};
    SpanIndex i = step_.last_to_end();
    t_ = step_.end();
    while (i >= 0 && t_ > step_.begin() && !visited_[i]) {
      visited_[i] = true;
      last_ = i;
      i = before(i);
      if (i >= 0) push(step_[i].end, PathSegment::Kind::Wait, last_);
    }
    push(step_.begin(), PathSegment::Kind::Wait, last_);
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  /// Extends the path backwards to `from`. Since the clocks of real ranks may disagree, a `from`
  /// after the present point is ignored: the path never goes forward in time. A span that began in
  /// the time of an earlier step is cut at the begin of this one.
  void push(SimTime from, PathSegment::Kind kind, SpanIndex span) {
    from = std::max(from, step_.begin());
    if (from >= t_) return;
    path_.push_back({kind, span, from, t_});
    t_ = from;
  }

  /// Adds the running time of `i` to the path and returns the span that had to end before `i` could
  /// run. -1: none.
  SpanIndex before(SpanIndex i) {
    const SpanIndex peer = step_.other_end(i);
    if (peer >= 0 && step_.is_receive(i)) {
      push(step_[peer].end, PathSegment::Kind::Run, i);  // the message is under way
      visited_[peer] = true;
      return before_message(peer, i);
    }
    if (peer >= 0) return before_message(i, peer);
    push(step_[i].active, PathSegment::Kind::Run, i);
    last_ = step_.last_arrival(i);
    return step_.held_by(last_);
  }

  SpanIndex before_message(SpanIndex send, SpanIndex receive) {
    push(step_[send].active, PathSegment::Kind::Run, send);
    const bool waited = step_[send].active > step_[send].begin;
    last_ = waited && step_[receive].begin > step_[send].begin ? receive : send;
    return step_.held_by(last_);
  }

  const StepGraph& step_;
  IndexVector<SpanIndex, bool> visited_;
  std::vector<PathSegment> path_;  // last segment first
  SimTime t_{};                    // the path is known from here to the end of the step
  SpanIndex last_ = -1;            // the span whose begin the path has reached
};

/// Computes latest end times from the end of the step backwards. A span's slack is bounded by the
/// spans that it holds up on its rank, and by its peers, whose transfer cannot begin without it.
class Slack {
 public:
  explicit Slack(const StepGraph& step)
      : step_(step),
        slack_(step.size(), SimTime::max()),
        waiting_(step.size(), 0),
        members_left_(step.num_meetings(), 0) {}

  std::vector<SimTime> compute() {
    for (SpanIndex i = 0; i < step_.size(); ++i) {
      step_.for_each_before(i, [&](SpanIndex before) { ++waiting_[before]; });
      if (step_.meeting_of(i) >= 0) ++members_left_[step_.meeting_of(i)];
    }
    for (SpanIndex i = 0; i < step_.size(); ++i) {
      if (waiting_[i] == 0) ready_.push_back(i);
    }
    while (!ready_.empty()) {
      const SpanIndex i = ready_.back();
      ready_.pop_back();
      settle(i);
    }
    return std::move(slack_);
  }

 private:
  /// Fixes the slack of `i`, once that of every span that it holds up on its rank is known.
  void settle(SpanIndex i) {
    slack_[i] = std::clamp(slack_[i], SimTime{}, step_.end() - step_[i].end);
    const std::int32_t meeting = step_.meeting_of(i);
    if (meeting < 0) {
      hold_up(i, slack_[i]);
    } else if (--members_left_[meeting] == 0) {
      settle_meeting(step_.members(meeting));
    }
  }

  /// Fixes the slack of a meeting's members. They end together, so the one with the least slack
  /// decides for all. A member may besides come as much later as the last one came after it.
  void settle_meeting(std::span<const SpanIndex> members) {
    SimTime least = SimTime::max(), last_begin = SimTime::min();
    for (const SpanIndex i : members) {
      least = std::min(least, slack_[i]);
      last_begin = std::max(last_begin, step_[i].begin);
    }
    for (const SpanIndex i : members) {
      slack_[i] = least;
      hold_up(i, least + (last_begin - step_[i].begin));
    }
  }

  /// Limits the slack of the spans before `i`, given that `i` may begin `room` later.
  void hold_up(SpanIndex i, SimTime room) {
    step_.for_each_before(i, [&](SpanIndex before) {
      SimTime& slack = slack_[before];
      slack = std::min(slack, room + (step_[i].begin - step_[before].end));
      if (--waiting_[before] == 0) ready_.push_back(before);
    });
  }

  const StepGraph& step_;
  IndexVector<SpanIndex, SimTime> slack_;
  IndexVector<SpanIndex, std::int32_t>
      waiting_;  // by span: successors on its rank that are not settled
  IndexVector<std::int32_t, std::int32_t> members_left_;  // by meeting
  std::vector<SpanIndex> ready_;
};

}  // namespace

std::vector<PathSegment> critical_path(const StepGraph& step) { return Path(step).trace_back(); }

PathSummary summarize(const StepGraph& step, const std::vector<PathSegment>& path) {
  PathSummary summary;
  summary.by_rank.resize(step.trace().same_as.size());
  Rank previous = -1;
  for (const PathSegment& segment : path) {
    const bool waits = segment.kind == PathSegment::Kind::Wait;
    const Rank rank = step[segment.span].rank;
    for (PathShare* share :
         {&summary.by_kind[waits ? "waiting" : step.kind(segment.span)], &summary.by_rank[rank]}) {
      share->time += segment.length();
      ++share->segments;
    }
    summary.crossings += previous >= 0 && previous != rank ? 1 : 0;
    previous = rank;
  }
  return summary;
}

std::vector<SimTime> slack(const StepGraph& step) {
  if (step.program() == nullptr) return {};
  return Slack(step).compute();
}

}  // namespace lockstep
