// analyze(trace): the figures that can be found from spans alone, without a program.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "core/analysis/intervals.hpp"
#include "core/analysis/report.hpp"
#include "core/analysis/step_intervals.hpp"
#include "core/base/index_vector.hpp"
#include "core/trace/op_class.hpp"

namespace lockstep {
namespace {

/// What one rank does, over all steps.
struct RankWork {
  std::vector<Interval> compute, transfers;
  SimTime stage_span{};  // summed over steps
};

class Reporter {
 public:
  explicit Reporter(const Trace& trace)
      : trace_(trace),
        intervals_(trace),
        stands_for_(trace.same_as.size(), 0),
        work_(trace.same_as.size()) {
    for (const Rank rank : trace.same_as) ++stands_for_[rank];
    for (const std::string& name : trace.names) class_of_name_.push_back(op_class(name));
    const auto compute = std::find(trace.streams.begin(), trace.streams.end(), "compute");
    if (compute != trace.streams.end()) {
      compute_stream_ = static_cast<int>(compute - trace.streams.begin());
    }
  }

  Report report() {
    report_.backend = trace_.backend;
    report_.program_hash = trace_.program_hash;
    report_.world_size = static_cast<int>(trace_.same_as.size());
    for (const StepResult& step : trace_.steps) {
      report_.losses.push_back(step.loss);
      report_.grad_norms.push_back(step.grad_norm);
    }
    const auto first = trace_.spans.begin();
    for (const StepIntervals::Step& step : intervals_.steps()) {
      add_step(first + static_cast<std::ptrdiff_t>(step.first),
               first + static_cast<std::ptrdiff_t>(step.last));
    }
    mean_of_kinds();
    measure_ranks();
    report_.causes = find_causes(trace_, nullptr);
    return std::move(report_);
  }

 private:
  using Iterator = std::vector<Span>::const_iterator;

  OpClass class_of(const Span& s) const { return class_of_name_[op(s).kind]; }
  TraceOp op(const Span& s) const { return trace_.roles[trace_.role_of_rank[s.rank]].ops[s.op]; }
  /// The host's spans do not count where devices work: they are nested, so time would count twice,
  /// and they are no part of a device's step.
  bool counts(const Span& s) const {
    return !intervals_.devices_work() || class_of(s) != OpClass::Host;
  }
  /// As StepGraph::span_class.
  bool computes(const Span& s) const {
    return class_of(s) == OpClass::Compute &&
           (compute_stream_ < 0 || op(s).stream == compute_stream_);
  }

  void add_step(Iterator begin, Iterator end) {
    for (auto rank_begin = begin; rank_begin != end;) {
      const auto rank_end =
          std::find_if(rank_begin, end, [&](const Span& s) { return s.rank != rank_begin->rank; });
      Interval compute;
      bool any = false;
      for (auto s = rank_begin; s != rank_end; ++s) {
        if (!counts(*s)) continue;
        add_span(*s);
        if (!computes(*s)) continue;
        compute = any ? Interval{std::min(compute.begin, s->active), std::max(compute.end, s->end)}
                      : Interval{s->active, s->end};
        any = true;
      }
      work_[rank_begin->rank].stage_span += compute.end - compute.begin;
      rank_begin = rank_end;
    }
  }

  void add_span(const Span& s) {
    RankWork& work = work_[s.rank];
    if (computes(s)) work.compute.push_back({s.active, s.end});
    if (is_transfer(class_of(s))) work.transfers.push_back({s.active, s.end});
    const std::int64_t ranks = stands_for_[s.rank];
    KindTime& kind = report_.kinds[trace_.names[op(s).kind]];
    kind.time += static_cast<double>(ranks) * to_seconds(s.end - s.active);
    kind.waiting += static_cast<double>(ranks) * to_seconds(s.active - s.begin);
    kind.count += ranks;
  }

  /// The rank's number in its job, taken from the label that the trace's reader gave it ("rank 3").
  Rank number_in_job(std::size_t rank) const {
    constexpr std::string_view kPrefix = "rank ";
    auto number = static_cast<Rank>(rank);
    if (rank >= trace_.rank_labels.size()) return number;
    const std::string& label = trace_.rank_labels[rank];
    if (!label.starts_with(kPrefix)) return number;
    std::from_chars(label.data() + kPrefix.size(), label.data() + label.size(), number);
    return number;
  }

  double steps() const {
    return static_cast<double>(std::max<std::size_t>(intervals_.counted(), 1));
  }
  Seconds mean(SimTime sum) const { return (1.0 / steps()) * to_seconds(sum); }

  void mean_of_kinds() {
    for (auto& [name, kind] : report_.kinds) {
      kind.time = (1.0 / steps()) * kind.time;
      kind.waiting = (1.0 / steps()) * kind.waiting;
      kind.count = std::llround(static_cast<double>(kind.count) / steps());
    }
  }

  void measure_ranks() {
    std::vector<Interval> windows;
    for (const StepIntervals::Step& step : intervals_.steps()) windows.push_back(step.window);
    const SimTime makespan = length(union_of(std::move(windows)));
    report_.step_time = mean(makespan);
    IndexVector<Rank, IntervalSet> busy(work_.size());
    IndexVector<Rank, SimTime> exposed(work_.size());
    for (std::size_t r = 0; r < work_.size(); ++r) {
      busy[r] = union_of(std::move(work_[r].compute));
      exposed[r] = length(difference(union_of(std::move(work_[r].transfers)), busy[r]));
    }
    SimTime compute{}, exposed_sum{}, busiest{};
    for (std::size_t r = 0; r < work_.size(); ++r) {
      const Rank own = trace_.same_as[r];
      const SimTime computing = length(busy[own]);
      RankReport rank;
      rank.rank = static_cast<Rank>(r);
      rank.number = number_in_job(r);
      rank.compute = mean(computing);
      rank.exposed_comm = mean(exposed[own]);
      rank.idle = mean(makespan - computing - exposed[own]);
      rank.stage_span = mean(work_[own].stage_span);
      if (r < trace_.peak_memory.size()) rank.peak_memory = Bytes{trace_.peak_memory[r]};
      report_.ranks.push_back(std::move(rank));
      compute += computing;
      exposed_sum += exposed[own];
      busiest = std::max(busiest, computing);
    }
    if (work_.empty()) return;
    const auto ranks = static_cast<std::int64_t>(work_.size());
    const auto ratio = [](SimTime a, SimTime b) {
      return b > SimTime{} ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 0.0;
    };
    report_.exposed_comm = (1.0 / static_cast<double>(ranks)) * mean(exposed_sum);
    report_.bubble_fraction = ratio(ranks * makespan - compute, ranks * makespan);
    report_.bubble_over_ideal = ratio(makespan - busiest, busiest);
  }

  const Trace& trace_;
  const StepIntervals intervals_;
  IndexVector<std::int32_t, OpClass> class_of_name_;
  int compute_stream_ = -1;                     // -1: no stream of that name
  IndexVector<Rank, std::int64_t> stands_for_;  // by rank: how many ranks its spans stand for
  IndexVector<Rank, RankWork> work_;            // by rank
  Report report_;
};

}  // namespace

Report analyze(const Trace& trace) { return Reporter(trace).report(); }

}  // namespace lockstep
