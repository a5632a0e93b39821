// StepGraph: one traced step as a graph of spans, and what each span waited for. What the other
// analyses share: they ask here who meets whom, what came before, and which time counts as what.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/step_intervals.hpp"
#include "core/ir/program.hpp"
#include "core/trace/op_class.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

using SpanIndex = std::int32_t;  // into StepGraph::spans(); -1: none

/// Compute: on the compute stream; in a trace without a stream of that name, whatever is no
/// transfer, copy or host work. Transfer: a collective or a message. Other: the rest.
enum class SpanClass : std::uint8_t { Compute, Transfer, Other };

/// Step numbers with spans, ascending.
std::vector<std::int32_t> traced_steps(const Trace& trace);

/// By rank: how many ranks its spans stand for (Trace::same_as).
std::vector<int> stands_for(const Trace& trace);

/// Holds pointers to `trace` and `program`, which must outlive it. Building it is linear in the
/// spans of the step, without a program n log n.
class StepGraph {
 public:
  /// `program`: what the trace came from; null: a trace from elsewhere. Then an op is taken to have
  /// waited for whatever ended last on its rank. Without spans of `step`, the graph is empty.
  StepGraph(const Trace& trace, std::int32_t step, const Program* program = nullptr);
  /// The same, for who goes through all steps: `intervals` are those of `trace`.
  StepGraph(const Trace& trace, std::int32_t step, const Program* program,
            const StepIntervals& intervals);

  const Trace& trace() const { return *trace_; }
  const Program* program() const { return program_; }
  std::span<const Span> spans() const { return spans_; }
  SpanIndex size() const { return static_cast<SpanIndex>(spans_.size()); }
  /// The time that belongs to the step, over all ranks: with a program from the first begin to the
  /// last end; without, its interval (StepIntervals), as steps from elsewhere overlap. Analyses
  /// that divide the step's time clip spans to it. What hosts do counts only where no device works.
  SimTime begin() const { return begin_; }
  SimTime end() const { return end_; }
  SimTime makespan() const { return end_ - begin_; }

  const Span& operator[](SpanIndex i) const { return spans_[static_cast<std::size_t>(i)]; }
  const TraceOp& op(SpanIndex i) const { return op(spans_[static_cast<std::size_t>(i)]); }
  SpanClass span_class(SpanIndex i) const { return span_class((*this)[i]); }
  bool counts(SpanIndex i) const;  // false: a host's, where devices work
  bool is_receive(SpanIndex i) const;
  const std::string& name(SpanIndex i) const;  // "block.F"
  const std::string& kind(SpanIndex i) const;  // "forward"

  /// What other steps compute and transfer on `rank` in this step's time, which is not idle then.
  std::span<const Span* const> of_other_steps(Rank rank) const;
  SpanClass span_class(const Span& s) const;
  const std::string& kind(const Span& s) const;
  /// Ranks with spans of their own in any step, ascending: all that no other one stands for.
  std::vector<Rank> own_ranks() const;

  /// Ranks that have spans in this step, ascending, and those spans as [first, last).
  const std::vector<Rank>& ranks() const { return ranks_; }
  struct Range {
    SpanIndex first = 0, last = 0;
  };
  Range of_rank(Rank rank) const;                 // empty: another rank stands for it
  SpanIndex find(Rank rank, OpId op) const;       // of a rank with spans of its own
  SpanIndex on_stream_before(SpanIndex i) const;  // its predecessor on the stream

  /// The spans that met in one transfer, this one among them, in rank order: the members of the
  /// collective, or both ends of the message. Empty: it meets nobody, or the trace does not say.
  std::span<const SpanIndex> meeting(SpanIndex i) const;
  std::int32_t num_meetings() const { return static_cast<std::int32_t>(meetings_.size()) - 1; }
  std::int32_t meeting_of(SpanIndex i) const { return meeting_of_[static_cast<std::size_t>(i)]; }
  std::span<const SpanIndex> members(std::int32_t meeting) const;
  /// The member whose begin is latest: `i` itself if nobody came after it, else the lowest rank.
  SpanIndex last_arrival(SpanIndex i) const;
  SpanIndex other_end(SpanIndex i) const;  // of a message; -1: not a message

  /// Calls visit(SpanIndex) for what had to end before `i` could begin: its predecessor on the
  /// stream and the ops it comes after. Requires a program.
  template <class Visit>
  void for_each_before(SpanIndex i, Visit visit) const {
    const Span& s = (*this)[i];
    if (const SpanIndex previous = on_stream_before(i); previous >= 0) visit(previous);
    const Role& role = program_->role_of(s.rank);
    for (const OpId before : role.after_of(role.op(s.op))) {
      if (const SpanIndex found = find(s.rank, before); found >= 0) visit(found);
    }
  }
  /// The one of these that ended last: what `i` waited for on its own rank. -1: nothing.
  SpanIndex held_by(SpanIndex i) const;

 private:
  const TraceOp& op(const Span& s) const {
    const auto role = trace_->role_of_rank[static_cast<std::size_t>(s.rank)];
    return trace_->roles[static_cast<std::size_t>(role)].ops[static_cast<std::size_t>(s.op.v)];
  }
  OpClass kind_class(SpanIndex i) const { return kind_class((*this)[i]); }
  OpClass kind_class(const Span& s) const {
    return kind_class_[static_cast<std::size_t>(op(s).kind)];
  }
  StepGraph(const Trace& trace, std::int32_t step, const Program* program,
            const StepIntervals* intervals);
  void index_ranks();
  void measure();
  void take_interval(std::int32_t step, const StepIntervals& intervals);
  void index_meetings();
  void index_ends();

  const Trace* trace_;
  const Program* program_;
  std::span<const Span> spans_;
  SimTime begin_{}, end_{};
  std::vector<Rank> ranks_;
  std::vector<Range> range_of_;         // by rank
  std::vector<SpanIndex> by_op_;        // [op_offset_[rank] + op]
  std::vector<std::size_t> op_offset_;  // by rank
  std::vector<OpClass> kind_class_;     // by name
  int compute_stream_ = -1;             // -1: no stream of that name
  bool devices_work_ = false;
  std::vector<std::int32_t> meeting_of_;  // by span; -1: none
  std::vector<SpanIndex> meetings_;  // by meeting: where its members begin; one more at the end
  std::vector<SpanIndex> members_;
  std::vector<SpanIndex> by_end_;  // without a program: a rank's spans that count, by (end, index)
  std::vector<std::size_t> end_offset_;  // by position in ranks_: into by_end_; one more at the end
  std::vector<std::vector<const Span*>> others_;  // by rank; empty with a program
};

}  // namespace lockstep
