#include "core/analysis/selection.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

class Collector {
 public:
  Collector(const StepGraph& step, SimTime from, SimTime to) : step_(step), from_(from), to_(to) {}

  void add(SpanIndex i) {
    const Span& s = step_[i];
    const SimTime time = s.end - s.active;
    statistics_.total += time;
    statistics_.waiting += s.active - s.begin;
    statistics_.inside += std::max(SimTime{}, std::min(s.end, to_) - std::max(s.active, from_));
    times_.push_back(time);
  }

  SpanStatistics finish() {
    statistics_.count = static_cast<std::int64_t>(times_.size());
    if (times_.empty()) return statistics_;
    const auto [least, most] = std::minmax_element(times_.begin(), times_.end());
    statistics_.least = *least;
    statistics_.most = *most;
    statistics_.p50 = percentile(50);
    statistics_.p90 = percentile(90);
    statistics_.p99 = percentile(99);
    return statistics_;
  }

 private:
  SimTime percentile(std::int64_t percent) {
    const auto count = static_cast<std::int64_t>(times_.size());
    const auto place = times_.begin() + (ceil_div(percent * count, 100) - 1);
    std::nth_element(times_.begin(), place, times_.end());
    return *place;
  }

  const StepGraph& step_;
  SimTime from_, to_;
  SpanStatistics statistics_;
  std::vector<SimTime> times_;
};

}  // namespace

Seconds SpanStatistics::mean() const {
  return (1.0 / static_cast<double>(std::max<std::int64_t>(count, 1))) * to_seconds(total);
}

Selection select(const StepGraph& step, SimTime from, SimTime to,
                 const std::function<bool(SpanIndex)>& wanted) {
  const auto inside = [&](const Span& s) {
    if (s.end == s.active) return from <= s.active && s.active < to;
    return s.active < to && from < s.end;
  };
  Collector all(step, from, to);
  std::map<std::int32_t, Collector> by_kind;
  Selection selection;
  for (const Rank rank : step.ranks()) {
    Collector of_rank(step, from, to);
    const StepGraph::Range range = step.of_rank(rank);
    for (SpanIndex i = range.first; i < range.last; ++i) {
      if (!inside(step[i]) || (wanted && !wanted(i))) continue;
      for (Collector* c :
           {&all, &of_rank, &by_kind.try_emplace(step.op(i).kind, step, from, to).first->second}) {
        c->add(i);
      }
    }
    const SpanStatistics statistics = of_rank.finish();
    if (statistics.count > 0) selection.by_rank[rank] = statistics;
  }
  selection.all = all.finish();
  for (auto& [kind, collector] : by_kind) {
    selection.by_kind[step.trace().names[kind]] = collector.finish();
  }
  return selection;
}

}  // namespace lockstep
