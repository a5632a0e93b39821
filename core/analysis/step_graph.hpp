// StepGraph: one traced step as a graph of spans, and what each span waited for. The other analyses
// share it: they ask here who meets whom, what came before, and which time counts as what.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/step_intervals.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/phase.hpp"
#include "core/ir/program.hpp"
#include "core/trace/op_class.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

using SpanIndex = std::int32_t;  // into StepGraph::spans(); -1: none

/// Compute: arithmetic on the compute stream, or on any stream if the trace has none of that name.
/// Transfer: a collective or a message. Other: the rest, such as copies and host work.
enum class SpanClass : std::uint8_t { Compute, Transfer, Other };

/// The numbers of the steps that have spans, ascending.
std::vector<std::int32_t> traced_steps(const Trace& trace);

/// For each rank, how many ranks its spans stand for (Trace::same_as).
std::vector<int> stands_for(const Trace& trace);

/// Holds pointers to `trace` and `program`, which must outlive it. Building it takes time linear in
/// the spans of the step; without a program, n log n.
class StepGraph {
 public:
  /// `program` is what the trace came from, or null for a trace from elsewhere, whose ops are taken
  /// to have waited for whatever ended last on their rank. Without spans of `step`, the graph is
  /// empty.
  StepGraph(const Trace& trace, std::int32_t step, const Program* program = nullptr);
  /// The same, for callers that go through all steps; `intervals` are those of `trace`.
  StepGraph(const Trace& trace, std::int32_t step, const Program* program,
            const StepIntervals& intervals);

  const Trace& trace() const { return *trace_; }
  const Program* program() const { return program_; }
  SpanRange spans() const { return spans_; }
  SpanIndex size() const { return static_cast<SpanIndex>(spans_.size()); }
  /// The time that belongs to the step, over all ranks. With a program it is from the first begin
  /// to the last end. Without one, it is the step's interval (StepIntervals), because steps of
  /// traces from elsewhere overlap. Analyses that divide the step's time clip spans to it. Spans of
  /// hosts count only if no device works in the trace.
  SimTime begin() const { return begin_; }
  SimTime end() const { return end_; }
  SimTime makespan() const { return end_ - begin_; }
  /// Of the spans that count, the first of those that end last. -1: none counts.
  SpanIndex last_to_end() const { return last_to_end_; }

  [[gnu::always_inline]] Span operator[](SpanIndex i) const { return spans_[to_size(i)]; }
  TraceOp op(SpanIndex i) const { return op((*this)[i]); }
  SpanClass span_class(SpanIndex i) const { return span_class((*this)[i]); }
  bool counts(SpanIndex i) const;  // false: a host's span, where devices work
  bool is_receive(SpanIndex i) const;
  const std::string& name(SpanIndex i) const;  // "block.F"
  const std::string& kind(SpanIndex i) const;  // "forward"

  /// What other steps compute and transfer on `rank` in this step's time, by the numbers of the
  /// spans in the trace; the rank is not idle then.
  std::span<const std::size_t> of_other_steps(Rank rank) const;
  SpanClass span_class(const Span& s) const { return facts(s).span_class; }
  Phase phase(SpanIndex i) const { return facts((*this)[i]).phase; }
  const std::string& kind(const Span& s) const;
  std::int32_t kind_index(const Span& s) const { return facts(s).kind; }  // into Trace::names
  /// The ranks with spans of their own in any step, ascending: all for which no other one stands.
  std::vector<Rank> own_ranks() const;

  /// Ranks that have spans in this step, ascending, and those spans as [first, last).
  const std::vector<Rank>& ranks() const { return ranks_; }
  struct Range {
    SpanIndex first = 0, last = 0;
  };
  Range of_rank(Rank rank) const;                 // empty: another rank stands for this one
  SpanIndex find(Rank rank, OpId op) const;       // `rank` must have spans of its own
  SpanIndex on_stream_before(SpanIndex i) const;  // the predecessor of i on its stream

  /// The spans that met in one transfer, including `i`, in rank order: the members of the
  /// collective, or both ends of the message. Empty: `i` meets nobody, or the trace does not say
  /// whom.
  std::span<const SpanIndex> meeting(SpanIndex i) const;
  std::int32_t num_meetings() const { return static_cast<std::int32_t>(meetings_.size()) - 1; }
  std::int32_t meeting_of(SpanIndex i) const { return meeting_of_[i]; }
  std::span<const SpanIndex> members(std::int32_t meeting) const;
  /// The member whose begin is latest; of several, the one of lowest rank.
  SpanIndex last_of(std::int32_t meeting) const { return last_of_meeting_[meeting]; }
  /// The same for the meeting of `i`: `i` itself if nobody came after it, else the lowest rank.
  SpanIndex last_arrival(SpanIndex i) const;
  SpanIndex other_end(SpanIndex i) const;  // the other end of a message; -1: `i` is not a message

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
  /// The one of these that ended last, which is what `i` waited for on its own rank. -1: nothing.
  SpanIndex held_by(SpanIndex i) const;

 private:
  TraceOp op(const Span& s) const {
    const auto role = trace_->role_of_rank[s.rank];
    return trace_->roles[role].ops[s.op];
  }
  /// What analyses ask of every span. Ops of one form share it, so that a cache holds a role's.
  struct OpFacts {
    std::uint16_t stream = 0;
    OpClass op_class = OpClass::Compute;
    SpanClass span_class = SpanClass::Other;
    Phase phase = Phase::None;
    std::int32_t kind = 0;  // into Trace::names
  };
  const OpFacts& facts(Rank rank, OpId op) const {
    const std::int32_t role = trace_->role_of_rank[rank];
    return facts_[role][trace_->roles[role].ops.form(op)];
  }
  const OpFacts& facts(const Span& s) const { return facts(s.rank, s.op); }
  SpanClass class_of(const TraceOp& op) const;
  OpClass kind_class(SpanIndex i) const { return facts((*this)[i]).op_class; }
  StepGraph(const Trace& trace, std::int32_t step, const Program* program,
            const StepIntervals* intervals);
  void find_ranks();
  void take_interval(std::int32_t step, const StepIntervals& intervals);
  void index_spans();
  void index_ops(const Spans::Run& run, const Spans::Run*& first_of_role);
  void index_ends();

  const Trace* trace_;
  const Program* program_;
  std::span<const Spans::Run> runs_;  // by position in ranks_
  SpanRange spans_;
  SimTime begin_{}, end_{};
  SpanIndex last_to_end_ = -1;
  std::vector<Rank> ranks_;
  IndexVector<Rank, Range> range_of_;  // by rank
  /// By op: the place of its span among those of a rank; -1: it has none. Ranks of one role whose
  /// spans are of the same ops in one order share a list.
  std::vector<IndexVector<OpId, SpanIndex>> by_op_;
  IndexVector<Rank, std::uint32_t> list_of_;               // by rank: into by_op_
  IndexVector<std::int32_t, OpClass> kind_class_;          // by index into Trace::names
  int compute_stream_ = -1;                                // -1: no stream of that name
  IndexVector<std::int32_t, std::vector<OpFacts>> facts_;  // by role and form of its ops
  bool devices_work_ = false;
  IndexVector<SpanIndex, std::int32_t> meeting_of_;  // by span; -1: none
  IndexVector<std::int32_t, SpanIndex>
      meetings_;  // by meeting: where its members begin; one more at the end
  IndexVector<int, SpanIndex> members_;
  IndexVector<std::int32_t, SpanIndex> last_of_meeting_;  // the first of those that begin last
  IndexVector<std::int32_t, SimTime> latest_begin_;       // by meeting: when that one begins
  std::vector<SpanIndex>
      by_end_;  // without a program: each rank's spans that count, sorted by (end, index)
  std::vector<std::size_t> end_offset_;  // by position in ranks_: into by_end_; one more at the end
  IndexVector<Rank, std::vector<std::size_t>> others_;  // by rank; empty with a program
};

}  // namespace lockstep
