#include "core/analysis/stragglers.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// How many members of a rank's own group come to a collective together with it: the rank itself
/// and those it stands for.
class Copies {
 public:
  explicit Copies(const Trace& trace) : trace_(trace), known_(trace.instances.size()) {}
  int operator()(std::int32_t channel, Rank rank) {
    if (to_size(channel) >= known_.size()) return 1;
    if (known_[channel].empty()) known_[channel] = count(trace_.instances[channel]);
    return known_[channel][rank];
  }

 private:
  /// By rank; 0 for those for which another one stands.
  IndexVector<Rank, int> count(const IndexVector<Rank, Rank>& instance) const {
    IndexVector<Rank, int> copies(instance.size(), 0);
    for (const Rank r : instance.ids()) {
      const Rank original = trace_.same_as[r];
      if (instance[r] == instance[original]) ++copies[original];
    }
    return copies;
  }

  const Trace& trace_;
  IndexVector<std::int32_t, IndexVector<Rank, int>> known_;  // by channel; empty: not yet
};

/// What it cost that a rank came last. It is counted by channel, because a rank that another one
/// stands for did the same in its own groups, but must not count twice in a group that has both.
struct Lateness {
  std::int64_t last = 0;
  SimTime caused{};
};
using LatenessByChannel = std::map<std::int32_t, Lateness>;

Stragglers stragglers_of(const StepGraph& step, bool list) {
  Stragglers result;
  const Trace& trace = step.trace();
  result.ranks.resize(trace.same_as.size());
  IndexVector<Rank, LatenessByChannel> late(trace.same_as.size());
  Copies copies(trace);
  for (std::int32_t m = 0; m < step.num_meetings(); ++m) {
    const std::span<const SpanIndex> members = step.members(m);
    if (members.empty() || step.other_end(members.front()) >= 0) continue;
    const std::int32_t channel = step.op(members.front()).channel;
    Arrival arrival{step.last_of(m), 0, {}, {}};
    const SimTime last = step[arrival.last].begin;
    for (const SpanIndex i : members) {
      const SimTime waits = last - step[i].begin;
      const int count = copies(channel, step[i].rank);
      arrival.spread = std::max(arrival.spread, waits);
      arrival.members += count;
      arrival.waited += count * waits;
    }
    if (arrival.members < 2) continue;
    for (const SpanIndex i : members) {
      RankArrivals& rank = result.ranks[step[i].rank];
      ++rank.collectives;
      rank.waited += last - step[i].begin;
    }
    if (arrival.spread <= SimTime{}) continue;
    Lateness& lateness = late[step[arrival.last].rank][channel];
    ++lateness.last;
    lateness.caused += arrival.waited;
    if (list) result.list.push_back(arrival);
  }
  std::stable_sort(result.list.begin(), result.list.end(),
                   [](const Arrival& a, const Arrival& b) { return a.waited > b.waited; });
  for (const Rank rank : trace.same_as.ids()) {
    const Rank original = trace.same_as[rank];
    RankArrivals& r = result.ranks[rank];
    r.collectives = result.ranks[original].collectives;
    r.waited = result.ranks[original].waited;
    for (const auto& [channel, lateness] : late[original]) {
      const auto& group = trace.instances[channel];
      if (rank != original && group[rank] == group[original]) continue;
      r.last += lateness.last;
      r.caused += lateness.caused;
    }
    result.waited += r.waited;
  }
  return result;
}

}  // namespace

Stragglers find_stragglers(const StepGraph& step) { return stragglers_of(step, true); }
Stragglers sum_stragglers(const StepGraph& step) { return stragglers_of(step, false); }

}  // namespace lockstep
