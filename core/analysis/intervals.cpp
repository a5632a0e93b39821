#include "core/analysis/intervals.hpp"

#include <algorithm>

namespace lockstep {

namespace {

bool earlier(const Interval& a, const Interval& b) { return a.begin < b.begin; }

/// Sorts intervals that come in a few stretches, each of which is sorted, as those of streams are:
/// merges neighbouring stretches until one is left.
void sort_by_begin(std::vector<Interval>& intervals) {
  const auto end = intervals.end();
  std::vector<std::vector<Interval>::iterator> cuts;
  for (auto at = intervals.begin(); at != end;) {
    cuts.push_back(at);
    at = std::is_sorted_until(at, end, earlier);
  }
  cuts.push_back(end);
  while (cuts.size() > 2) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); i += 2) {
      if (i + 2 < cuts.size()) std::inplace_merge(cuts[i], cuts[i + 1], cuts[i + 2], earlier);
      cuts[kept++] = cuts[i];
    }
    cuts[kept++] = end;
    cuts.resize(kept);
  }
}

}  // namespace

IntervalSet union_of(std::vector<Interval> intervals) {
  sort_by_begin(intervals);
  IntervalSet result;
  for (const Interval& i : intervals) {
    if (i.end <= i.begin) continue;
    if (!result.empty() && i.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, i.end);
    } else {
      result.push_back(i);
    }
  }
  return result;
}

IntervalSet difference(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  auto hole = b.begin();
  for (const Interval& i : a) {
    while (hole != b.end() && hole->end <= i.begin) ++hole;
    SimTime from = i.begin;
    for (auto h = hole; h != b.end() && h->begin < i.end; ++h) {
      if (from < h->begin) result.push_back({from, h->begin});
      from = h->end;
    }
    if (from < i.end) result.push_back({from, i.end});
  }
  return result;
}

IntervalSet intersection(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    const Interval both{std::max(x->begin, y->begin), std::min(x->end, y->end)};
    if (both.begin < both.end) result.push_back(both);
    x->end < y->end ? static_cast<void>(++x) : static_cast<void>(++y);
  }
  return result;
}

SimTime length(const IntervalSet& set) {
  SimTime total{};
  for (const Interval& i : set) total += i.end - i.begin;
  return total;
}

}  // namespace lockstep
