// Lanes: the spans of each rank and stream, indexed so that a picture of ten million of them costs
// what its pixels cost. Spans are never copied: a lane points into the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/trace/trace.hpp"
#include "gui/model/run/look.hpp"

namespace lockstep::gui {

/// The spans of one lane in one step: ascending and disjoint. Memory beside the spans: half a byte
/// each.
class LaneSegment {
 public:
  explicit LaneSegment(std::span<const Span> spans);  // the trace outlives the segment
  std::span<const Span> spans() const { return spans_; }
  SimTime begin() const { return spans_.front().begin; }
  SimTime end() const { return spans_.back().end; }

  /// Index of the first span that ends after `t`; size if none does.
  std::size_t first_ending_after(SimTime t) const;
  /// Index of the first span at or after `from` that begins at or after `t`. Cost: the logarithm
  /// of the distance from `from + guess`.
  std::size_t first_beginning_at(SimTime t, std::size_t from, std::size_t guess) const;
  /// Index of the longest of spans [from, to), the first of equals; of more than 32 spans only the
  /// whole sixteens among them are looked at, which costs a tenth. Requires from < to.
  std::size_t longest(std::size_t from, std::size_t to) const;

 private:
  struct Longest {
    float duration = -1;
    std::uint32_t index = 0;
  };
  float duration(std::size_t i) const {
    return static_cast<float>((spans_[i].end - spans_[i].begin).count());
  }
  std::span<const Span> spans_;
  std::vector<std::vector<Longest>> levels_;  // level k: of each whole 16^(k+1) spans
};

/// What one stream of one rank did: one segment per traced step, in time order.
struct Lane {
  Rank rank = 0;  // whose spans these are
  int stream = 0;
  std::vector<LaneSegment> segments;
  SimTime computing{};  // sum of its spans that compute
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
  explicit Lanes(const Trace& trace);  // the trace outlives the lanes
  const std::vector<Lane>& all() const { return lanes_; }
  /// Lanes of `rank`, ascending by stream; of the rank that stands for it where it has none.
  std::span<const Lane> of_rank(Rank rank) const;
  const Lane* find(Rank rank, int stream) const;  // null: the rank does nothing there
  /// The lane that stands for a rank: "compute"; of a trace without such a stream, the one that
  /// computes longest; where none computes, the one with the most spans that are not the host's.
  /// Null: the rank has none.
  const Lane* main_of_rank(Rank rank) const;
  SimTime begin() const { return begin_; }  // of the first span
  SimTime end() const { return end_; }      // of the last
  const std::vector<StepWindow>& steps() const { return steps_; }
  std::size_t spans() const { return spans_; }
  Look look(const Span& span) const;
  const TraceOp& op(const Span& span) const;

 private:
  const Trace* trace_ = nullptr;
  std::vector<Lane> lanes_;                 // by (rank, stream)
  std::vector<std::size_t> first_of_rank_;  // world size + 1 entries into lanes_
  std::vector<Look> look_of_name_;
  std::vector<StepWindow> steps_;
  SimTime begin_{}, end_{};
  std::size_t spans_ = 0;
};

}  // namespace lockstep::gui
