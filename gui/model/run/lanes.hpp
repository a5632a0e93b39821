// Lanes: the spans of each rank and stream, indexed so that the time to draw ten million of them
// depends on the number of pixels only. Spans are never copied; a lane points into the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/trace/trace.hpp"
#include "gui/model/run/look.hpp"

namespace lockstep::gui {

class Lanes;

/// What several spans that follow each other spent their time on.
struct LookMix {
  Look most = Look::OtherCompute;  // the look with the most time, the first of equals
  Look second = Look::OtherCompute;
  double share_of_second = 0;  // of the time of both
  double busy = 1;             // the part of the time, from first to last, in which there is a span
};

/// The spans of one lane in one step, which are ascending and disjoint. The index takes half a byte
/// for each span and each look that occurs and, if several do, a byte for each span.
class LaneSegment {
 public:
  /// `lanes` must know the looks of the spans. Its trace must outlive the segment.
  LaneSegment(const SpanRange& spans, const Lanes& lanes);
  const SpanRange& spans() const { return spans_; }
  SimTime begin() const { return spans_.front().begin; }
  SimTime end() const { return spans_.back().end; }

  /// The index of the first span that ends after `t`; the number of spans if none does.
  std::size_t first_ending_after(SimTime t) const;
  /// The index of the first span at or after `from` that begins at or after `t`. Takes the
  /// logarithm of the distance from `from + guess`.
  std::size_t first_beginning_at(SimTime t, std::size_t from, std::size_t guess) const;
  /// What spans [from, to) spent their time on. Of more than 32 spans only complete groups of
  /// sixteen are looked at, which takes a tenth of the time. Requires from < to.
  LookMix mix(std::size_t from, std::size_t to) const;

 private:
  SpanRange spans_;
  std::vector<Look> looks_;         // those that occur
  std::vector<Look> look_of_span_;  // empty if all spans have the same
  /// By look: the time of its spans before each sixteenth span.
  std::vector<std::vector<std::int64_t>> before_;
};

/// What one stream of one rank did, with one segment per traced step, in time order.
struct Lane {
  Rank rank = 0;  // the rank whose spans these are
  int stream = 0;
  std::vector<LaneSegment> segments;
  SimTime computing{};  // the total time of its spans that compute
  std::size_t count() const;
};

/// A traced step: from its first span's begin to its last span's end, over all ranks.
struct StepWindow {
  int step = 0;
  SimTime begin{}, end{};
};

/// All lanes of a trace.
class Lanes {
 public:
  Lanes() = default;
  explicit Lanes(const Trace& trace);  // the trace must outlive the lanes
  const std::vector<Lane>& all() const { return lanes_; }
  /// The lanes of `rank`, ascending by stream; those of the rank that stands for it if it has none.
  std::span<const Lane> of_rank(Rank rank) const;
  const Lane* find(Rank rank, int stream) const;  // null if the rank does nothing on the stream
  /// The lane that stands for a rank: that of the stream "compute"; in a trace without such a
  /// stream, the lane that computes longest; if none computes, the one with the most spans that are
  /// not the host's. Null if the rank has no lane.
  const Lane* main_of_rank(Rank rank) const;
  /// Of the first span; without spans, of the first sample of memory.
  SimTime begin() const { return begin_; }
  SimTime end() const { return end_; }  // likewise of the last
  const std::vector<StepWindow>& steps() const { return steps_; }
  std::size_t spans() const { return spans_; }
  Look look(const Span& span) const;
  TraceOp op(const Span& span) const;
  Look look_of(const TraceOp& op) const;  // kernels of a trace from elsewhere: by their family

 private:
  const Trace* trace_ = nullptr;
  std::vector<Lane> lanes_;                 // by (rank, stream)
  std::vector<std::size_t> first_of_rank_;  // world size + 1 entries into lanes_
  std::vector<Look> look_of_name_;          // by name of a kind
  std::vector<Look> look_of_kernel_;        // by name of an op, in a trace from elsewhere; or empty
  std::vector<StepWindow> steps_;
  SimTime begin_{}, end_{};
  std::size_t spans_ = 0;
};

}  // namespace lockstep::gui
