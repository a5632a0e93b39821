#include "backends/sim/sim_backend.hpp"

#include <algorithm>
#include <utility>

#include "backends/sim/engine.hpp"
#include "backends/sim/loading.hpp"
#include "backends/sim/stream_order.hpp"
#include "core/run/trace_builder.hpp"

namespace lockstep {
namespace {

/// Appends the spans that `ranks` have in a step's timeline, whose times become theirs if these are
/// its ranks.
void take_spans(sim::Timeline& timeline, const std::vector<Rank>& ranks, const Program& program,
                int step, Spans& spans) {
  std::size_t all = 0;
  for (const Role& role : program.roles) all += role.ops.size();
  std::vector<OpId> ops;  // of each role whose ranks have spans
  ops.reserve(all);
  IndexVector<RoleId, std::size_t> first_op(program.roles.size());
  IndexVector<RoleId, IndexVector<OpId, std::uint32_t>> places(program.roles.size());
  std::vector<Spans::Run> runs;
  Column<ActiveTime> times;
  const bool own = timeline.ranks == ranks;
  for (const Rank rank : ranks) {
    const RoleId role = program.role_of_rank[rank];
    const std::size_t count = program.roles[role].ops.size();
    if (places[role].empty()) {
      const sim::StreamOrder order = sim::stream_order(program.roles[role]);
      places[role] = sim::places(order);
      first_op[role] = ops.size();
      for (const std::uint32_t op : order.ops) ops.push_back({static_cast<std::int32_t>(op)});
    }
    const std::size_t first = runs.empty() ? 0 : runs.back().last;
    runs.push_back({step, rank, first, first + count, first_op[role]});
    if (own) continue;
    const auto known = timeline.of_place(timeline.place_of(rank));
    times.insert(times.end(), known.begin(), known.end());
  }
  const std::size_t base = spans.add_ops(std::move(ops));
  for (Spans::Run& run : runs) run.ops += base;
  spans.append(std::move(runs), own ? std::move(timeline.times) : std::move(times),
               [&](const Spans::Run& run, std::span<SimTime> begins) {
                 const RoleId role = program.role_of_rank[run.rank];
                 sim::find_begins(program.roles[role], places[role], spans.times(run), begins);
               });
}

}  // namespace

Result<RunResult> SimBackend::run(const Program& program, const ClusterSpec& cluster,
                                  const RunOptions& options) {
  Result<sim::Timeline> timeline = sim::simulate_with_loader(program, cluster, what_if_);
  if (!timeline) return timeline.error();
  const std::vector<Rank> ranks = timeline->ranks;
  Spans spans;
  std::vector<SimTime> slowed;
  const auto add_step = [&](sim::Timeline& of_step, const Program& step, int number) {
    slowed.resize(of_step.same_as.size());
    for (const Rank rank : of_step.same_as.ids()) {
      slowed[to_size(rank)] += of_step.slowed[of_step.place_of(rank)];
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
  // What names the ops comes after, so that it can have memory that the simulation had.
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
