#include "core/session/simulation.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "backends/sim/engine.hpp"
#include "backends/sim/loading.hpp"
#include "backends/sim/sim_backend.hpp"
#include "core/lower/lower.hpp"
#include "core/memory/device_memory.hpp"

namespace lockstep {

namespace {}  // namespace

Result<Trace> simulated_trace(const Program& program, const ClusterSpec& cluster,
                              const WhatIfSpec& what_if, MemorySamples memory) {
  RunOptions options;
  options.memory_samples = memory == MemorySamples::Kept;
  Result<RunResult> ran = SimBackend(what_if).run(program, cluster, options);
  if (!ran) return ran.error();
  return std::move(ran->trace);
}

Result<Report> simulated_step(const Scenario& scenario) {
  const Result<Program> program = lower_to_fit(scenario);
  if (!program) return program.error();
  return simulated_step_of(*program, scenario);
}

Result<Report> simulated_step_of(const Program& program, const Scenario& scenario) {
  const Result<Trace> trace = simulated_trace(program, scenario.cluster, scenario.what_if);
  if (!trace) return trace.error();
  return analyze(*trace, program, scenario.cluster);
}

Result<Run> simulated_run(const Scenario& scenario, Devices devices) {
  Result<Program> program =
      devices == Devices::Unlimited ? lower(scenario) : lower_to_fit(scenario);
  if (!program) return program.error();
  Result<Trace> trace =
      simulated_trace(*program, scenario.cluster, scenario.what_if, MemorySamples::Kept);
  if (!trace) return trace.error();
  Run run;
  run.trace = std::move(*trace);
  run.report = analyze(run.trace, std::move(*program), scenario.cluster);
  return run;
}

Result<std::function<Result<Seconds>(const ClusterSpec&)>> step_time_model(
    const Scenario& scenario) {
  Result<Program> lowered = lower(scenario);
  if (!lowered) return lowered.error();
  const auto program = std::make_shared<const Program>(std::move(*lowered));
  return std::function<Result<Seconds>(const ClusterSpec&)>(
      [program, what_if = scenario.what_if](const ClusterSpec& cluster) -> Result<Seconds> {
        const Result<sim::Timeline> timeline =
            sim::simulate_with_loader(*program, cluster, what_if);
        if (!timeline) return timeline.error();
        if (program->sync_every < 2) return to_seconds(timeline->makespan);
        const Result<sim::Timeline> apart =
            sim::simulate_with_loader(without_synchronization(*program), cluster, what_if);
        if (!apart) return apart.error();
        const double part = 1.0 / program->sync_every;  // of the steps bring replicas together
        return part * to_seconds(timeline->makespan) + (1 - part) * to_seconds(apart->makespan);
      });
}

Bytes fullest_rank(const Report& report) {
  Bytes most;
  for (const RankReport& rank : report.ranks) most = std::max(most, rank.peak_memory);
  return most;
}

LayoutFigures layout_figures(const Report& r) {
  return {r.images_per_s > 0 ? r.images_per_s : r.tokens_per_s,
          r.mfu,
          r.step_time,
          r.exposed_comm,
          r.bubble_fraction,
          fullest_rank(r),
          {}};
}

Result<LayoutFigures> simulated_layout(const Scenario& scenario) {
  MemoryFigures memory;
  const Result<Program> program = lower_to_fit(scenario, &memory);
  if (!program) return program.error();
  const Result<Report> step = simulated_step_of(*program, scenario);
  if (!step) return step.error();
  LayoutFigures figures = layout_figures(*step);
  figures.memory = memory;
  return figures;
}

Result<StepPrediction> simulated_prediction(const Scenario& scenario) {
  const Result<LayoutFigures> figures = simulated_layout(scenario);
  if (!figures) return figures.error();
  const Seconds idle = figures->bubble_fraction * figures->step_time - figures->exposed_comm;
  return StepPrediction{figures->step_time, figures->memory, figures->exposed_comm, idle};
}

Result<Probe> simulated_probe(const Scenario& scenario) {
  Result<Program> program = lower_unverified(scenario);
  if (!program) return program.error();
  // Most steps of replicas that train apart do not bring them together.
  std::optional<Program> usual;
  if (program->sync_every > 1) usual = without_synchronization(*program);
  const Program& simulated = usual ? *usual : *program;
  const Result<sim::Timeline> timeline =
      sim::simulate_with_loader(simulated, scenario.cluster, scenario.what_if);
  if (!timeline) return timeline.error();
  Probe probe;
  probe.step = to_seconds(timeline->makespan);
  for (const Role& role : program->roles) {
    const std::size_t place = timeline->place_of(role.ranks.front());
    IndexVector<OpId, OpInterval> times;
    times.reserve(role.ops.size());
    for (const sim::OpTiming& t : timeline->by_op(place, simulated.role_of(role.ranks.front()))) {
      times.push_back({to_seconds(t.active), to_seconds(t.end)});
    }
    times.resize(role.ops.size(), {probe.step, probe.step});
    probe.times.push_back(std::move(times));
    probe.needed.push_back(device_memory(*program, role, scenario.cluster).figures().needed);
  }
  probe.program = std::move(*program);
  return probe;
}

}  // namespace lockstep
