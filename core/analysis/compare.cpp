#include "core/analysis/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

using SpanRange = std::pair<std::vector<Span>::const_iterator, std::vector<Span>::const_iterator>;

/// Spans of the first traced step, by rank.
std::map<Rank, SpanRange> first_step(const Trace& trace) {
  std::map<Rank, SpanRange> result;
  for (auto s = trace.spans.begin();
       s != trace.spans.end() && s->step == trace.spans.front().step;) {
    const auto end = std::find_if(s, trace.spans.end(), [&](const Span& other) {
      return other.rank != s->rank || other.step != s->step;
    });
    result[s->rank] = {s, end};
    s = end;
  }
  return result;
}

/// Means over the traced steps.
std::map<std::string, KindTime> times_by_name(const Trace& trace) {
  std::vector<int> stands_for(trace.same_as.size(), 0);
  for (const Rank rank : trace.same_as) ++stands_for[at(rank)];
  std::vector<KindTime> by_name(trace.names.size());
  std::set<std::int32_t> steps;
  for (const Span& s : trace.spans) {
    steps.insert(s.step);
    const TraceRole& role = trace.roles[at(trace.role_of_rank[at(s.rank)])];
    KindTime& time = by_name[at(role.ops[at(s.op.v)].name)];
    const int ranks = stands_for[at(s.rank)];
    time.time += ranks * to_seconds(s.end - s.active);
    time.waiting += ranks * to_seconds(s.active - s.begin);
    time.count += ranks;
  }
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(steps.size(), 1));
  for (KindTime& time : by_name) {
    time.time = (1.0 / static_cast<double>(count)) * time.time;
    time.waiting = (1.0 / static_cast<double>(count)) * time.waiting;
    time.count /= count;
  }
  std::map<std::string, KindTime> result;
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    if (by_name[i].count > 0) result[trace.names[i]] = by_name[i];
  }
  return result;
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

/// (stream, op) of every span of one rank in the order in which the stream ran them.
std::vector<std::pair<std::uint8_t, std::int32_t>> order_of(const Trace& trace, Rank rank,
                                                            const SpanRange& range) {
  const TraceRole& role = trace.roles[at(trace.role_of_rank[at(rank)])];
  std::vector<Span> spans(range.first, range.second);
  const auto key = [&](const Span& s) {  // ops of no length may share a begin
    return std::tuple(role.ops[at(s.op.v)].stream, s.begin, s.end, s.op.v);
  };
  std::sort(spans.begin(), spans.end(),
            [&](const Span& x, const Span& y) { return key(x) < key(y); });
  std::vector<std::pair<std::uint8_t, std::int32_t>> order;
  for (const Span& s : spans) order.emplace_back(role.ops[at(s.op.v)].stream, s.op.v);
  return order;
}

bool same_order(const Trace& a, const Trace& b) {
  if (a.same_as.size() != b.same_as.size()) return false;
  const auto spans_a = first_step(a), spans_b = first_step(b);
  std::map<std::pair<Rank, Rank>, bool> known;  // folded ranks repeat the same pair
  for (std::size_t rank = 0; rank < a.same_as.size(); ++rank) {
    const std::pair<Rank, Rank> pair{a.same_as[rank], b.same_as[rank]};
    const auto [it, fresh] = known.try_emplace(pair, true);
    if (!fresh) continue;
    const auto range_a = spans_a.find(pair.first), range_b = spans_b.find(pair.second);
    if (range_a == spans_a.end() || range_b == spans_b.end()) return false;
    if (order_of(a, pair.first, range_a->second) != order_of(b, pair.second, range_b->second)) {
      return false;
    }
  }
  return true;
}

LossDifference compare_losses(const std::vector<double>& a, const std::vector<double>& b) {
  LossDifference result;
  result.steps = static_cast<int>(std::min(a.size(), b.size()));
  for (int i = 0; i < result.steps; ++i) {
    const double difference = std::fabs(a[at(i)] - b[at(i)]);
    if (result.worst_step < 0 || difference > result.largest || std::isnan(difference)) {
      result.largest = difference;
      result.worst_step = i;
    }
    if (a[at(i)] != 0)
      result.relative = std::max(result.relative, difference / std::fabs(a[at(i)]));
  }
  return result;
}

}  // namespace

Comparison compare(const Report& a, const Trace& trace_a, const Report& b, const Trace& trace_b) {
  Comparison result;
  result.same_program = a.program_hash == b.program_hash;
  result.same_order = result.same_program && same_order(trace_a, trace_b);
  result.same_memory = a.ranks.size() == b.ranks.size() &&
                       std::equal(a.ranks.begin(), a.ranks.end(), b.ranks.begin(),
                                  [](const RankReport& x, const RankReport& y) {
                                    return x.peak_memory == y.peak_memory;
                                  });
  result.kinds = differences<KindDifference>(a.kinds, b.kinds);
  result.ops = differences<OpDifference>(times_by_name(trace_a), times_by_name(trace_b));
  result.losses = compare_losses(a.losses, b.losses);
  return result;
}

}  // namespace lockstep
