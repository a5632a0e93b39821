// analyze(trace): the numbers that spans alone can tell.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/analysis/intervals.hpp"
#include "core/analysis/report.hpp"
#include "core/base/at.hpp"
#include "core/trace/op_class.hpp"

namespace lockstep {
namespace {

/// Work of one rank, all steps.
struct RankWork {
  std::vector<Interval> compute, transfers;
  SimTime stage_span{};  // sum over steps
};

class Reporter {
 public:
  explicit Reporter(const Trace& trace)
      : trace_(trace), stands_for_(trace.same_as.size(), 0), work_(trace.same_as.size()) {
    for (const Rank rank : trace.same_as) ++stands_for_[at(rank)];
    for (const std::string& name : trace.names) class_of_name_.push_back(op_class(name));
    device_works_ = std::any_of(trace.spans.begin(), trace.spans.end(),
                                [&](const Span& s) { return class_of(s) != OpClass::Host; });
  }

  Report report() {
    report_.backend = trace_.backend;
    report_.program_hash = trace_.program_hash;
    report_.world_size = static_cast<int>(trace_.same_as.size());
    for (const StepResult& step : trace_.steps) {
      report_.losses.push_back(step.loss);
      report_.grad_norms.push_back(step.grad_norm);
    }
    for (auto begin = trace_.spans.begin(); begin != trace_.spans.end();) {
      const auto end = std::find_if(begin, trace_.spans.end(),
                                    [&](const Span& s) { return s.step != begin->step; });
      add_step(begin, end);
      begin = end;
    }
    mean_of_kinds();
    measure_ranks();
    report_.causes = find_causes(trace_, nullptr);
    return std::move(report_);
  }

 private:
  using Iterator = std::vector<Span>::const_iterator;

  OpClass class_of(const Span& s) const { return class_of_name_[at(op(s).kind)]; }
  const TraceOp& op(const Span& s) const {
    return trace_.roles[at(trace_.role_of_rank[at(s.rank)])].ops[at(s.op.v)];
  }
  /// The host's spans nest: they would count twice, and are no part of a device's step.
  bool counts(const Span& s) const { return !device_works_ || class_of(s) != OpClass::Host; }

  void add_step(Iterator begin, Iterator end) {
    Interval window;
    bool any = false;
    for (auto rank_begin = begin; rank_begin != end;) {
      const auto rank_end =
          std::find_if(rank_begin, end, [&](const Span& s) { return s.rank != rank_begin->rank; });
      Interval compute;
      bool computes = false;
      for (auto s = rank_begin; s != rank_end; ++s) {
        if (!counts(*s)) continue;
        add_span(*s);
        const auto extend = [](Interval& i, SimTime from, SimTime to, bool& known) {
          i = known ? Interval{std::min(i.begin, from), std::max(i.end, to)} : Interval{from, to};
          known = true;
        };
        extend(window, s->begin, s->end, any);
        if (class_of(*s) == OpClass::Compute) extend(compute, s->active, s->end, computes);
      }
      work_[at(rank_begin->rank)].stage_span += compute.end - compute.begin;
      rank_begin = rank_end;
    }
    if (any) windows_.push_back(window);
  }

  void add_span(const Span& s) {
    RankWork& work = work_[at(s.rank)];
    if (class_of(s) == OpClass::Compute) work.compute.push_back({s.active, s.end});
    if (is_transfer(class_of(s))) work.transfers.push_back({s.active, s.end});
    const std::int64_t ranks = stands_for_[at(s.rank)];
    KindTime& kind = report_.kinds[trace_.names[at(op(s).kind)]];
    kind.time += static_cast<double>(ranks) * to_seconds(s.end - s.active);
    kind.waiting += static_cast<double>(ranks) * to_seconds(s.active - s.begin);
    kind.count += ranks;
  }

  double steps() const { return static_cast<double>(std::max<std::size_t>(windows_.size(), 1)); }
  Seconds mean(SimTime sum) const { return (1.0 / steps()) * to_seconds(sum); }

  void mean_of_kinds() {
    for (auto& [name, kind] : report_.kinds) {
      kind.time = (1.0 / steps()) * kind.time;
      kind.waiting = (1.0 / steps()) * kind.waiting;
      kind.count = std::llround(static_cast<double>(kind.count) / steps());
    }
  }

  void measure_ranks() {
    const SimTime makespan = length(union_of(windows_));
    report_.step_time = mean(makespan);
    std::vector<IntervalSet> busy(work_.size());
    std::vector<SimTime> exposed(work_.size());
    for (std::size_t r = 0; r < work_.size(); ++r) {
      busy[r] = union_of(std::move(work_[r].compute));
      exposed[r] = length(difference(union_of(std::move(work_[r].transfers)), busy[r]));
    }
    SimTime compute{}, exposed_sum{}, busiest{};
    for (std::size_t r = 0; r < work_.size(); ++r) {
      const std::size_t own = at(trace_.same_as[r]);
      const SimTime computing = length(busy[own]);
      RankReport rank;
      rank.rank = static_cast<Rank>(r);
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
  std::vector<OpClass> class_of_name_;
  bool device_works_ = false;
  std::vector<std::int64_t> stands_for_;  // by rank: how many have its spans
  std::vector<RankWork> work_;            // by rank
  std::vector<Interval> windows_;         // by step
  Report report_;
};

}  // namespace

Report analyze(const Trace& trace) { return Reporter(trace).report(); }

}  // namespace lockstep
