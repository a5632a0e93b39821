#include "core/analysis/trace_report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/trace/op_class.hpp"

namespace lockstep {
namespace {

/// Sums over all ranks and steps. Spans of hosts do not count where devices work: they are nested,
/// so that time would count twice, and they are no part of a device's step.
std::map<std::string, KindTime> kind_times(const Trace& trace, const StepShares& shares) {
  IndexVector<std::int32_t, KindTime> sums(trace.names.size());
  const IndexVector<Rank, int> copies = stands_for(trace);
  for (const Spans::Run& run : trace.spans.runs()) {
    const TraceOps& ops = trace.roles[trace.role_of_rank[run.rank]].ops;
    const double share = shares.of(run.step) * copies[run.rank];
    for (const Span& s : trace.spans.range(run)) {
      KindTime& kind = sums[ops[s.op].kind];
      kind.time += share * to_seconds(s.end - s.active);
      kind.waiting += share * to_seconds(s.active - s.begin);
      kind.count += copies[run.rank];
    }
  }
  std::map<std::string, KindTime> of_devices, of_hosts;
  for (const std::int32_t id : sums.ids()) {
    const std::string& name = trace.names[id];
    if (sums[id].count == 0) continue;
    (op_class(name) == OpClass::Host ? of_hosts : of_devices)[name] = sums[id];
  }
  return of_devices.empty() ? of_hosts : of_devices;
}

/// The rank's number in its job, taken from the label that the trace's reader gave it ("rank 3").
Rank number_in_job(const Trace& trace, Rank rank) {
  constexpr std::string_view kPrefix = "rank ";
  if (to_size(rank) >= trace.rank_labels.size()) return rank;
  const std::string& label = trace.rank_labels[rank];
  if (!label.starts_with(kPrefix)) return rank;
  std::from_chars(label.data() + kPrefix.size(), label.data() + label.size(), rank);
  return rank;
}

}  // namespace

AnalyzedSteps report_spans(Report& report, const Trace& trace, const Program* program,
                           const StepShares& shares, std::vector<StepAnalysis>* kept) {
  report.backend = trace.backend;
  report.program_hash = trace.program_hash;
  report.world_size = static_cast<int>(trace.same_as.size());
  for (const StepResult& step : trace.steps) {
    report.losses.push_back(step.loss);
    report.grad_norms.push_back(step.grad_norm);
  }
  AnalyzedSteps found;
  ThreadTeam team(std::min(2, threads_for(trace.spans.size())));
  team.each(2, [&](std::size_t i) {
    if (i == 0) {
      found = analyze_steps(trace, program, shares, kept);
    } else {
      report.kinds = kind_times(trace, shares);
    }
  });
  report.causes = std::move(found.causes);
  for (auto& [name, kind] : report.kinds) {
    kind.time = (1.0 / found.count()) * kind.time;
    kind.waiting = (1.0 / found.count()) * kind.waiting;
    kind.count = std::llround(static_cast<double>(kind.count) / found.count());
  }
  SimTime bubble{}, exposed{}, busiest{};
  for (const Rank r : trace.same_as.ids()) {
    const RankTimes& t = found.ranks[r];
    RankReport& rank = report.ranks.emplace_back();
    rank.rank = r;
    rank.number = number_in_job(trace, r);
    rank.compute = found.mean(t.compute);
    rank.exposed_comm = found.mean(t.exposed_comm);
    rank.idle = found.mean(t.idle);
    rank.stage_span = found.mean(t.stage_span);
    if (to_size(r) < trace.peak_memory.size()) rank.peak_memory = Bytes{trace.peak_memory[r]};
    bubble += found.makespan - t.compute;
    exposed += t.exposed_comm;
    busiest = std::max(busiest, t.compute);
  }
  if (report.ranks.empty()) return found;
  const auto ratio = [](SimTime a, SimTime b) {
    return b > SimTime{} ? static_cast<double>(a.count()) / static_cast<double>(b.count()) : 0.0;
  };
  report.exposed_comm = (1.0 / report.world_size) * found.mean(exposed);
  report.bubble_fraction = ratio(bubble, report.world_size * found.makespan);
  report.bubble_over_ideal = ratio(found.makespan - busiest, busiest);
  return found;
}

bool tells_device_work(const Report& report) {
  return std::any_of(report.ranks.begin(), report.ranks.end(), [](const RankReport& rank) {
    return rank.compute.v > 0 || rank.exposed_comm.v > 0;
  });
}

Report analyze(const Trace& trace) {
  Report report;
  const AnalyzedSteps found = report_spans(report, trace, nullptr, {trace, nullptr}, nullptr);
  report.step_time = found.mean(found.makespan);
  return report;
}

}  // namespace lockstep
