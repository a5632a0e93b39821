#include "core/analysis/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/analysis/step_graph.hpp"
#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"

namespace lockstep {
namespace {

/// Times by name, as means over the traced steps. `label` gives an op's index into `names`.
template <class Label>
std::map<std::string, KindTime> times_by(const Trace& trace, const std::vector<std::string>& names,
                                         Label label) {
  const IndexVector<Rank, int> stands_for = lockstep::stands_for(trace);
  IndexVector<std::int32_t, KindTime> by_name(names.size());
  std::set<std::int32_t> steps;
  IndexVector<std::int32_t, bool> is_host;  // by name of a kind
  for (const std::string& name : trace.names) is_host.push_back(op_class(name) == OpClass::Host);
  const bool devices_work = StepIntervals(trace).devices_work();
  for (const Span& s : trace.spans) {
    const TraceRole& role = trace.roles[trace.role_of_rank[s.rank]];
    if (devices_work && is_host[role.ops[s.op].kind]) continue;
    steps.insert(s.step);
    KindTime& time = by_name[label(role.ops[s.op])];
    const int ranks = stands_for[s.rank];
    time.time += ranks * to_seconds(s.end - s.active);
    time.waiting += ranks * to_seconds(s.active - s.begin);
    time.count += ranks;
  }
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(steps.size(), 1));
  for (KindTime& time : by_name) {
    time.time = (1.0 / static_cast<double>(count)) * time.time;
    time.waiting = (1.0 / static_cast<double>(count)) * time.waiting;
    time.count = (time.count + count - 1) / count;  // what runs in some steps only is not lost
  }
  std::map<std::string, KindTime> result;
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    if (by_name[i].count > 0) result[names[i]] = by_name[i];
  }
  return result;
}
std::map<std::string, KindTime> times_by_name(const Trace& trace) {
  return times_by(trace, trace.names, [](const TraceOp& op) { return op.name; });
}
std::map<std::string, KindTime> times_by_stream(const Trace& trace) {
  return times_by(trace, trace.streams,
                  [](const TraceOp& op) { return static_cast<std::int32_t>(op.stream); });
}

template <class Difference>
std::vector<Difference> differences(const std::map<std::string, KindTime>& a,
                                    const std::map<std::string, KindTime>& b) {
  std::map<std::string, Difference> joined;
  for (const auto& [name, time] : a) joined[name].a = time;
  for (const auto& [name, time] : b) joined[name].b = time;
  std::vector<Difference> result;
  for (auto& [name, difference] : joined) result.push_back({name, difference.a, difference.b});
  std::stable_sort(result.begin(), result.end(), [](const Difference& x, const Difference& y) {
    return std::fabs(x.a.time.v - x.b.time.v) > std::fabs(y.a.time.v - y.b.time.v);
  });
  return result;
}

/// (stream, op) of every span of one rank in the first traced step, in the order in which the
/// stream ran them.
std::vector<std::pair<std::uint16_t, std::int32_t>> order_of(const Trace& trace, Rank rank) {
  const TraceRole& role = trace.roles[trace.role_of_rank[rank]];
  const SpanRange range = trace.spans.range(trace.spans.front().step, rank);
  std::vector<Span> spans(range.begin(), range.end());
  const auto key = [&](const Span& s) {  // ops of zero length may share a begin
    return std::tuple(role.ops[s.op].stream, s.begin, s.end, s.op.v);
  };
  std::sort(spans.begin(), spans.end(),
            [&](const Span& x, const Span& y) { return key(x) < key(y); });
  std::vector<std::pair<std::uint16_t, std::int32_t>> order;
  for (const Span& s : spans) order.emplace_back(role.ops[s.op].stream, s.op.v);
  return order;
}

bool same_order(const Trace& a, const Trace& b) {
  if (a.same_as.size() != b.same_as.size()) return false;
  if (a.same_as.empty()) return true;
  if (a.spans.empty() || b.spans.empty()) return false;
  std::map<std::pair<Rank, Rank>, bool> known;  // ranks that others stand for repeat the same pair
  for (std::size_t rank = 0; rank < a.same_as.size(); ++rank) {
    const std::pair<Rank, Rank> pair{a.same_as[rank], b.same_as[rank]};
    const auto [it, fresh] = known.try_emplace(pair, true);
    if (!fresh) continue;
    const auto order_a = order_of(a, pair.first), order_b = order_of(b, pair.second);
    if (order_a.empty() || order_a != order_b) return false;
  }
  return true;
}

Seconds distance(Seconds a, Seconds b) { return {std::fabs(a.v - b.v)}; }

std::vector<RankDifference> compare_ranks(const Report& a, const Report& b) {
  if (a.ranks.size() != b.ranks.size()) return {};
  std::vector<RankDifference> result;
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    const RankReport &x = a.ranks[r], &y = b.ranks[r];
    result.push_back(
        {x.rank, x.number, x.compute, y.compute, x.exposed_comm, y.exposed_comm, x.idle, y.idle});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& x, const auto& y) { return x.largest() > y.largest(); });
  return result;
}

std::map<std::string, std::int64_t> most_memory(const Trace& trace,
                                                const std::vector<MemorySample>& samples) {
  std::map<std::string, std::int64_t> result;
  for (const MemorySample& sample : samples) {
    for (std::size_t k = 0; k < sample.bytes_by_kind.size(); ++k) {
      if (k >= trace.memory_kinds.size() || sample.bytes_by_kind[k] == 0) continue;
      std::int64_t& most = result[trace.memory_kinds[k]];
      most = std::max(most, sample.bytes_by_kind[k]);
    }
  }
  return result;
}

/// Step numbers and makespans of the traced steps.
std::vector<std::pair<std::int32_t, Seconds>> step_times(const Trace& trace) {
  std::vector<std::pair<std::int32_t, Seconds>> result;
  const StepIntervals intervals(trace);
  for (const StepIntervals::Step& step : intervals.steps()) {
    result.emplace_back(step.number, to_seconds(step.interval.end - step.interval.begin));
  }
  return result;
}

std::vector<StepDifference> compare_steps(const Trace& a, const Trace& b) {
  const auto x = step_times(a), y = step_times(b);
  std::vector<StepDifference> result;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    result.push_back({x[i].first, y[i].first, x[i].second, y[i].second});
  }
  return result;
}

LossDifference compare_losses(const IndexVector<int, double>& a,
                              const IndexVector<int, double>& b) {
  LossDifference result;
  result.steps = static_cast<int>(std::min(a.size(), b.size()));
  for (int i = 0; i < result.steps; ++i) {
    const double difference = std::fabs(a[i] - b[i]);
    if (result.worst_step < 0 || difference > result.largest || std::isnan(difference)) {
      result.largest = difference;
      result.worst_step = i;
    }
    if (a[i] != 0) result.relative = std::max(result.relative, difference / std::fabs(a[i]));
  }
  return result;
}

}  // namespace

Seconds RankDifference::largest() const {
  return std::max(
      {distance(compute_a, compute_b), distance(exposed_a, exposed_b), distance(idle_a, idle_b)});
}

std::string change_of(const KindTime& a, const KindTime& b) {
  if (a.count == 0 && b.count > 0) return "new";
  if (b.count == 0 && a.count > 0) return "gone";
  return change_text(a.time.v, b.time.v);
}

std::vector<MemoryDifference> compare_memory(const Trace& a,
                                             const std::vector<MemorySample>& samples_a,
                                             const Trace& b,
                                             const std::vector<MemorySample>& samples_b) {
  std::map<std::string, MemoryDifference> joined;
  for (const auto& [kind, bytes] : most_memory(a, samples_a)) joined[kind].a = Bytes{bytes};
  for (const auto& [kind, bytes] : most_memory(b, samples_b)) joined[kind].b = Bytes{bytes};
  std::vector<MemoryDifference> result;
  for (const auto& [kind, d] : joined) result.push_back({kind, d.a, d.b});
  std::stable_sort(result.begin(), result.end(), [](const auto& x, const auto& y) {
    return std::abs(x.a.v - x.b.v) > std::abs(y.a.v - y.b.v);
  });
  return result;
}

Comparison compare(const Report& a, const Trace& trace_a, const Report& b, const Trace& trace_b) {
  Comparison result;
  result.same_program = a.program_hash == b.program_hash && !a.program_hash.empty();
  result.same_order = result.same_program && same_order(trace_a, trace_b);
  result.same_memory = a.ranks.size() == b.ranks.size() &&
                       std::equal(a.ranks.begin(), a.ranks.end(), b.ranks.begin(),
                                  [](const RankReport& x, const RankReport& y) {
                                    return x.peak_memory == y.peak_memory;
                                  });
  result.kinds = differences<KindDifference>(a.kinds, b.kinds);
  result.ops = differences<OpDifference>(times_by_name(trace_a), times_by_name(trace_b));
  result.streams =
      differences<StreamDifference>(times_by_stream(trace_a), times_by_stream(trace_b));
  result.ranks = compare_ranks(a, b);
  result.memory = compare_memory(trace_a, trace_a.memory, trace_b, trace_b.memory);
  result.steps = compare_steps(trace_a, trace_b);
  result.losses = compare_losses(a.losses, b.losses);
  result.parts_a = step_causes(a);
  result.parts_b = step_causes(b);
  result.conclusion = conclusion(a, b);
  return result;
}

}  // namespace lockstep
