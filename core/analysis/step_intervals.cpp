#include "core/analysis/step_intervals.hpp"

#include <algorithm>
#include <utility>

#include "core/base/index_vector.hpp"

namespace lockstep {
StepIntervals::StepIntervals(const Trace& trace) {
  IndexVector<std::int32_t, bool> is_host;  // by name
  for (const std::string& name : trace.names) is_host.push_back(op_class(name) == OpClass::Host);
  const auto of_host = [&](const Span& s) {
    const TraceRole& role = trace.roles[trace.role_of_rank[s.rank]];
    return is_host[role.ops[s.op].kind];
  };
  const bool hosts = std::find(is_host.begin(), is_host.end(), true) != is_host.end();
  devices_work_ =
      hosts ? !std::all_of(trace.spans.begin(), trace.spans.end(), of_host) : !trace.spans.empty();
  for (const Spans::Run& run : trace.spans.runs()) {
    if (steps_.empty() || steps_.back().number != run.step) {
      steps_.push_back({run.step, run.first, run.first, false, {}, {}});
    }
    Step& step = steps_.back();
    step.last = run.last;
    for (const Span& s : trace.spans.range(run)) {
      if (hosts && devices_work_ && of_host(s)) continue;
      step.window = step.counts ? Interval{std::min(step.window.begin, s.begin),
                                           std::max(step.window.end, s.end)}
                                : Interval{s.begin, s.end};
      step.counts = true;
    }
  }
  std::vector<Step*> by_begin;
  for (Step& step : steps_) {
    if (step.counts) by_begin.push_back(&step);
  }
  std::stable_sort(by_begin.begin(), by_begin.end(),
                   [](const Step* a, const Step* b) { return a->window.begin < b->window.begin; });
  SimTime reached = SimTime::min();
  for (Step* step : by_begin) {
    step->interval = {std::max(step->window.begin, reached), std::max(step->window.end, reached)};
    reached = step->interval.end;
  }
}

const StepIntervals::Step* StepIntervals::find(std::int32_t number) const {
  const auto found =
      std::lower_bound(steps_.begin(), steps_.end(), number,
                       [](const Step& step, std::int32_t value) { return step.number < value; });
  return found != steps_.end() && found->number == number ? &*found : nullptr;
}

std::size_t StepIntervals::counted() const {
  return to_size(
      std::count_if(steps_.begin(), steps_.end(), [](const Step& step) { return step.counts; }));
}

}  // namespace lockstep
