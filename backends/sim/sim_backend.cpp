#include "backends/sim/sim_backend.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/sim/engine.hpp"
#include "backends/sim/loading.hpp"
#include "core/base/give_back_memory.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/trace_builder.hpp"

namespace lockstep {
namespace {

/// Writes the spans of one rank, by stream and then in op order, which is the order in which they
/// begin, to `spans`, which has a place for each op.
void put_spans(Span* spans, Rank rank, const Role& role, int step,
               const IndexVector<OpId, sim::OpTiming>& times) {
  std::array<std::size_t, kNumStreams + 1> next{};
  for (const Op& op : role.ops) ++next[to_size(op.stream) + 1];
  for (std::size_t s = 1; s < next.size(); ++s) next[s] += next[s - 1];
  const IndexVector<OpId, SimTime> begin = sim::begin_times(role, times);
  for (const OpId op : role.ops.ids()) {
    const std::size_t place = next[to_size(role.op(op).stream)]++;
    spans[place] = {rank, op, step, begin[op], times[op].active, times[op].end};
  }
}

/// The place among a timeline's ranks of the one that stands for `rank`.
std::size_t place_of(const sim::Timeline& timeline, Rank rank) {
  const auto at =
      std::lower_bound(timeline.ranks.begin(), timeline.ranks.end(), timeline.same_as[rank]);
  return static_cast<std::size_t>(at - timeline.ranks.begin());
}

/// Appends the spans that `ranks` have in a step's timeline, whose times it takes. Some ranks at a
/// time are done side by side; then their times go, for of many ranks both need gigabytes. A part
/// of the ranks at a time, the system gets that memory back, too.
void take_spans(sim::Timeline& timeline, const std::vector<Rank>& ranks, const Program& program,
                int step, std::vector<Span>& spans) {
  const bool own = timeline.ranks == ranks;  // else a rank's times may be needed again
  if (own) spans.reserve(spans.size() + to_size(timeline.num_ops));
  ThreadTeam team(threads_for(to_size(timeline.num_ops)));
  // So few that the caches still have the places that were made for their spans.
  const std::size_t at_once = 4 * to_size(team.size());
  const std::size_t part = std::max(at_once, ranks.size() / 16);
  std::vector<std::size_t> place(at_once);  // where the spans of each rank begin
  for (std::size_t begin = 0; begin < ranks.size(); begin += at_once) {
    const std::size_t count = std::min(at_once, ranks.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      place[i] = spans.size();
      spans.resize(spans.size() + program.role_of(ranks[begin + i]).ops.size());
    }
    team.each(count, [&](std::size_t i) {
      const Rank rank = ranks[begin + i];
      auto& known = timeline.times[place_of(timeline, rank)];
      const auto times = own ? std::exchange(known, {}) : known;
      put_spans(spans.data() + place[i], rank, program.role_of(rank), step, times);
    });
    const std::size_t end = begin + count;
    if (own && end < ranks.size() && end / part > begin / part) give_back_memory();
  }
}

}  // namespace

Result<RunResult> SimBackend::run(const Program& program, const ClusterSpec& cluster,
                                  const RunOptions& options) {
  Result<sim::Timeline> timeline = sim::simulate_with_loader(program, cluster, what_if_);
  if (!timeline) return timeline.error();
  const std::vector<Rank> ranks = timeline->ranks;
  std::vector<Span> spans;
  std::vector<SimTime> slowed;
  const auto add_step = [&](sim::Timeline& of_step, const Program& step, int number) {
    slowed.resize(of_step.same_as.size());
    for (const Rank rank : of_step.same_as.ids()) {
      slowed[to_size(rank)] += of_step.slowed[place_of(of_step, rank)];
    }
    take_spans(of_step, ranks, step, number, spans);
  };
  // Of replicas that train apart, a step that does not bring them together comes first. Fewer ranks
  // may stand for all of them in it, because replicas do not meet.
  const bool apart = program.sync_every > 1;
  if (apart) {
    const Program inner = without_synchronization(program);
    Result<sim::Timeline> first = sim::simulate_with_loader(inner, cluster, what_if_);
    if (!first) return first.error();
    add_step(*first, inner, 0);
  }
  add_step(*timeline, program, apart ? 1 : 0);
  // What names the ops comes after, so that it can have the memory of the times.
  RunResult result;
  Trace& trace = result.trace;
  trace = make_trace_skeleton(program, std::string(name()));
  trace.same_as = timeline->same_as;
  trace.spans = std::move(spans);
  if (std::any_of(slowed.begin(), slowed.end(), [](SimTime t) { return t > SimTime{}; })) {
    for (const SimTime of_rank : slowed) trace.slowed.push_back(of_rank.count());
  }
  if (options.memory_samples) trace.memory = memory_samples(trace, program);
  return result;
}

std::unique_ptr<Backend> make_sim_backend(const WhatIfSpec& what_if) {
  return std::make_unique<SimBackend>(what_if);
}

}  // namespace lockstep
