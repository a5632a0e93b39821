#include "core/analysis/in_flight.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// The spans of one stream of a rank, as [first, last).
StepGraph::Range stream_of(const StepGraph& step, Rank rank, int stream) {
  const StepGraph::Range range = step.of_rank(rank);
  const auto first_with = [&](int wanted) {
    SpanIndex low = range.first, high = range.last;
    while (low < high) {
      const SpanIndex middle = low + (high - low) / 2;
      step.op(middle).stream < wanted ? low = middle + 1 : high = middle;
    }
    return low;
  };
  return {first_with(stream), first_with(stream + 1)};
}

/// The first of the stream's spans that ends after t.
SpanIndex first_ending_after(const StepGraph& step, const StepGraph::Range& stream, SimTime t) {
  SpanIndex low = stream.first, high = stream.last;
  while (low < high) {
    const SpanIndex middle = low + (high - low) / 2;
    step[middle].end <= t ? low = middle + 1 : high = middle;
  }
  return low;
}

class Flights {
 public:
  Flights(const StepGraph& step, SimTime t, SimTime linger)
      : step_(step), t_(t), since_(t - linger) {
    const IndexVector<Rank, Rank>& same_as = step.trace().same_as;
    for (std::size_t r = 0; r < same_as.size(); ++r) {
      copies_[same_as[r]].push_back(static_cast<Rank>(r));
    }
  }

  std::vector<Flight> find() {
    const int streams = static_cast<int>(step_.trace().streams.size());
    for (const Rank rank : step_.ranks()) {
      for (int s = 0; s < streams; ++s) look(stream_of(step_, rank, s));
    }
    std::sort(flights_.begin(), flights_.end(), [](const Flight& a, const Flight& b) {
      return std::tie(a.span, a.ranks) < std::tie(b.span, b.ranks);
    });
    return std::move(flights_);
  }

 private:
  void look(const StepGraph::Range& stream) {
    for (SpanIndex i = first_ending_after(step_, stream, since_); i < stream.last; ++i) {
      if (step_.span_class(i) != SpanClass::Transfer) return;
      if (step_.other_end(i) < 0) {
        if (step_[i].active > t_) return;
        collective(i);
        continue;
      }
      // A message is shown when its receive is met, not its send: several messages of one stream
      // may be on the wire at once, and they arrive in order.
      if (!step_.is_receive(i)) return;
      const SpanIndex send = step_.other_end(i);
      if (step_[send].active > t_) return;
      message(send, i);
    }
  }

  void add(SpanIndex span, bool message, std::vector<Rank> ranks, SimTime begin, SimTime end) {
    const double length = static_cast<double>((end - begin).count());
    const double done =
        length > 0 ? std::min(static_cast<double>((t_ - begin).count()) / length, 1.0) : 0;
    flights_.push_back({span, message, std::move(ranks), step_.op(span).bytes, begin, end, done});
  }

  void message(SpanIndex send, SpanIndex receive) {
    const SimTime begin = step_[send].active, end = step_[receive].end;
    const Rank from = step_[send].rank, to = step_[receive].rank;
    add(send, true, {from, to}, begin, end);
    const Program* program = step_.program();
    if (program == nullptr) return;
    const int pp = program->mesh.index_of("pp");
    for (const Rank copy : copies_[from]) {
      if (copy == from || pp < 0) continue;
      add(send, true,
          {copy, program->mesh.with_coordinate(copy, pp, program->mesh.coordinate(to, pp))}, begin,
          end);
    }
  }

  /// Adds a collective once for every group that contains a member's rank, or a rank that a member
  /// stands for.
  void collective(SpanIndex i) {
    const auto members = step_.meeting(i);
    if (!members.empty() && members.front() != i) return;
    const std::int32_t channel = step_.op(i).channel;
    const auto& instances = step_.trace().instances;
    if (members.empty() || to_size(channel) >= instances.size()) {
      add(i, false, {step_[i].rank}, step_[i].active, step_[i].end);
      return;
    }
    std::set<Rank> groups;
    for (const Rank copy : copies_[step_[i].rank]) groups.insert(instances[channel][copy]);
    std::map<Rank, std::vector<Rank>> ranks;
    for (std::size_t r = 0; r < instances[channel].size(); ++r) {
      const Rank group = instances[channel][r];
      if (groups.count(group) > 0) ranks[group].push_back(static_cast<Rank>(r));
    }
    for (auto& [group, list] : ranks) add(i, false, std::move(list), step_[i].active, step_[i].end);
  }

  const StepGraph& step_;
  const SimTime t_, since_;
  std::map<Rank, std::vector<Rank>>
      copies_;  // by rank with spans of its own: the ranks that it stands for
  std::vector<Flight> flights_;
};

}  // namespace

std::vector<Flight> in_flight(const StepGraph& step, SimTime t, SimTime linger) {
  return Flights(step, t, linger).find();
}

SpanIndex running_at(const StepGraph& step, Rank rank, int stream, SimTime t) {
  const StepGraph::Range range = stream_of(step, step.trace().same_as[rank], stream);
  const SpanIndex i = first_ending_after(step, range, t);
  return i < range.last && step[i].active <= t ? i : -1;
}

RankActivity activity_at(const StepGraph& step, const Bubbles& bubbles, Rank rank, SimTime t) {
  RankActivity activity;
  activity.bubble = bubble_at(bubbles, step, rank, t);
  if (activity.bubble != nullptr) return activity;
  const int streams = static_cast<int>(step.trace().streams.size());
  for (int s = 0; s < streams && activity.computing < 0; ++s) {
    const SpanIndex i = running_at(step, rank, s, t);
    if (i >= 0 && step.span_class(i) == SpanClass::Compute) activity.computing = i;
  }
  return activity;
}

}  // namespace lockstep
