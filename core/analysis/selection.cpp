#include "core/analysis/selection.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

void StatisticsCollector::add(const Span& s, SimTime self) {
  const SimTime time = s.end - s.active;
  statistics_.total += time;
  statistics_.self += self;
  statistics_.waiting += s.active - s.begin;
  statistics_.inside += std::max(SimTime{}, std::min(s.end, to_) - std::max(s.active, from_));
  times_.push_back(time);
}

SpanStatistics StatisticsCollector::finish() {
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

SimTime StatisticsCollector::percentile(std::int64_t percent) {
  const auto count = static_cast<std::int64_t>(times_.size());
  const auto place = times_.begin() + (ceil_div(percent * count, 100) - 1);
  std::nth_element(times_.begin(), place, times_.end());
  return *place;
}

Seconds SpanStatistics::mean() const {
  return (1.0 / static_cast<double>(std::max<std::int64_t>(count, 1))) * to_seconds(total);
}

Selection select(const StepGraph& step, SimTime from, SimTime to,
                 const std::function<bool(SpanIndex)>& wanted, std::span<const SimTime> self) {
  const auto inside = [&](const Span& s) {
    if (s.end == s.active) return from <= s.active && s.active < to;
    return s.active < to && from < s.end;
  };
  StatisticsCollector all(from, to);
  std::map<std::int32_t, StatisticsCollector> by_kind;
  Selection selection;
  for (const Rank rank : step.ranks()) {
    StatisticsCollector of_rank(from, to);
    const StepGraph::Range range = step.of_rank(rank);
    for (SpanIndex i = range.first; i < range.last; ++i) {
      const Span& s = step[i];
      if (!inside(s) || (wanted && !wanted(i))) continue;
      const SimTime own = self.empty() ? s.end - s.active : self[to_size(i)];
      by_kind.try_emplace(step.op(i).kind, from, to).first->second.add(s, own);
      if (!step.counts(i)) continue;  // what hosts do beside devices is another time
      all.add(s, own);
      of_rank.add(s, own);
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
