#include "backends/sim/sim_backend.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/sim/engine.hpp"
#include "backends/sim/loading.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/trace_builder.hpp"

namespace lockstep {
namespace {

/// Writes the spans of one rank, by stream and then in op order, which is the order in which they
/// begin, to `spans`, which has a place for each op.
void put_spans(Span* spans, Rank rank, const Role& role,
               const IndexVector<OpId, sim::OpTiming>& times) {
  std::array<std::size_t, kNumStreams + 1> next{};
  for (const Op& op : role.ops) ++next[to_size(op.stream) + 1];
  for (std::size_t s = 1; s < next.size(); ++s) next[s] += next[s - 1];
  const IndexVector<OpId, SimTime> begin = sim::begin_times(role, times);
  for (const OpId op : role.ops.ids()) {
    const std::size_t place = next[to_size(role.op(op).stream)]++;
    spans[place] = {rank, op, 0, begin[op], times[op].active, times[op].end};
  }
}

/// The spans of all ranks of a timeline, whose times it takes. Some ranks at a time are done side
/// by side; then their times go, for of many ranks both need gigabytes.
std::vector<Span> take_spans(sim::Timeline& timeline, const Program& program) {
  constexpr std::size_t kRanksAtOnce = 64;
  std::vector<Span> spans;
  spans.reserve(to_size(timeline.num_ops));
  ThreadTeam team(threads_for(to_size(timeline.num_ops)));
  for (std::size_t begin = 0; begin < timeline.ranks.size(); begin += kRanksAtOnce) {
    const std::size_t count = std::min(kRanksAtOnce, timeline.ranks.size() - begin);
    std::array<std::size_t, kRanksAtOnce> place{};  // where the spans of each rank begin
    for (std::size_t i = 0; i < count; ++i) {
      place[i] = spans.size();
      spans.resize(spans.size() + program.role_of(timeline.ranks[begin + i]).ops.size());
    }
    team.each(count, [&](std::size_t i) {
      const Rank rank = timeline.ranks[begin + i];
      const auto times = std::exchange(timeline.times[begin + i], {});
      put_spans(spans.data() + place[i], rank, program.role_of(rank), times);
    });
  }
  return spans;
}

}  // namespace

Result<RunResult> SimBackend::run(const Program& program, const ClusterSpec& cluster,
                                  const RunOptions& options) {
  Result<sim::Timeline> timeline = sim::simulate_with_loader(program, cluster, what_if_);
  if (!timeline) return timeline.error();
  std::vector<Span> spans = take_spans(*timeline, program);
  // What names the ops comes after, so that it can have the memory of the times.
  RunResult result;
  Trace& trace = result.trace;
  trace = make_trace_skeleton(program, std::string(name()));
  trace.same_as = timeline->same_as;
  trace.spans = std::move(spans);
  for (std::size_t i = 0; i < timeline->ranks.size(); ++i) {
    if (timeline->slowed[i] > SimTime{}) trace.slowed.resize(trace.same_as.size());
  }
  for (std::size_t r = 0; r < trace.slowed.size(); ++r) {
    const auto at =
        std::lower_bound(timeline->ranks.begin(), timeline->ranks.end(), trace.same_as[r]);
    trace.slowed[r] =
        timeline->slowed[static_cast<std::size_t>(at - timeline->ranks.begin())].count();
  }
  if (options.memory_samples) add_memory_samples(trace, program);
  return result;
}

std::unique_ptr<Backend> make_sim_backend(const WhatIfSpec& what_if) {
  return std::make_unique<SimBackend>(what_if);
}

}  // namespace lockstep
