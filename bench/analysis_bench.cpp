// Measures how fast a traced step is analysed. The argument is the number of spans of a 1F1B
// pipeline over 8 stages.
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <utility>

#include "backends/sim/sim_backend.hpp"
#include "core/analysis/breakdown.hpp"
#include "core/analysis/bubbles.hpp"
#include "core/analysis/causes.hpp"
#include "core/analysis/compare.hpp"
#include "core/analysis/critical_path.hpp"
#include "core/analysis/in_flight.hpp"
#include "core/analysis/memory_map.hpp"
#include "core/analysis/selection.hpp"
#include "core/analysis/stragglers.hpp"
#include "core/lower/lower.hpp"

namespace lockstep {
namespace {

struct Simulated {
  Program program;
  Trace trace;
};

/// The pipeline, which is simulated once for all benchmarks of one size.
const Simulated& pipeline(std::int64_t spans) {
  static std::map<std::int64_t, std::unique_ptr<Simulated>> known;
  std::unique_ptr<Simulated>& entry = known[spans];
  if (entry) return *entry;
  Scenario s;
  s.model.architecture = Architecture::Synthetic;
  s.costs = CostsSpec{{10e-3}, {12e-3}, {8e-3}, 1e-3};
  s.strategy.pipeline_parallel_degree = 8;
  s.strategy.pipeline_parallel_microbatches = static_cast<int>(spans / 44);
  s.training.local_batch_size = s.strategy.pipeline_parallel_microbatches;
  s.cluster.devices_per_node = 8;
  s.cluster.device.memory = {std::int64_t{1} << 40};
  entry = std::make_unique<Simulated>();
  Result<Program> program = lower(s);
  if (!program) return *entry;
  entry->program = std::move(*program);
  Result<RunResult> run = make_sim_backend()->run(entry->program, s.cluster, {});
  if (run) entry->trace = std::move(run->trace);
  return *entry;
}

template <class Analysis>
void analyse(benchmark::State& state, Analysis analysis) {
  const Simulated& s = pipeline(state.range(0));
  if (s.trace.spans.empty()) {
    state.SkipWithError("the pipeline could not be simulated");
    return;
  }
  const StepGraph step(s.trace, 0, &s.program);
  for (auto _ : state) {
    auto result = analysis(step, s);
    benchmark::DoNotOptimize(&result);
  }
  state.SetItemsProcessed(state.iterations() * step.size());
}

const auto kSizes = [](auto* b) { b->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond); };

#define LOCKSTEP_ANALYSIS(name, expression)                        \
  void name(benchmark::State& state) {                             \
    analyse(state, [](const StepGraph& step, const Simulated& s) { \
      static_cast<void>(step), static_cast<void>(s);               \
      return expression;                                           \
    });                                                            \
  }                                                                \
  BENCHMARK(name)->Apply(kSizes)

LOCKSTEP_ANALYSIS(graph, StepGraph(s.trace, 0, &s.program));
LOCKSTEP_ANALYSIS(graph_without_program, StepGraph(s.trace, 0));
LOCKSTEP_ANALYSIS(bubbles, find_bubbles(step));
LOCKSTEP_ANALYSIS(path, critical_path(step));
LOCKSTEP_ANALYSIS(slacks, slack(step));
LOCKSTEP_ANALYSIS(parts, break_down(step));
LOCKSTEP_ANALYSIS(arrivals, find_stragglers(step));
LOCKSTEP_ANALYSIS(selected, select(step, step.begin(), step.end()));
LOCKSTEP_ANALYSIS(lives, buffer_lives(step, 0));
LOCKSTEP_ANALYSIS(all_causes, analyze_steps(s.trace, &s.program, {s.trace, &s.program}));

/// Measures the caption of one frame while a step plays.
void caption_of_a_frame(benchmark::State& state) {
  const Simulated& s = pipeline(state.range(0));
  const StepGraph step(s.trace, 0, &s.program);
  const Bubbles found = find_bubbles(step);
  std::int64_t frame = 0;
  for (auto _ : state) {
    const SimTime t = step.begin() + step.makespan() / 1000 * (frame++ % 1000);
    benchmark::DoNotOptimize(caption(step, found, t));
    benchmark::DoNotOptimize(in_flight(step, t));
  }
}
BENCHMARK(caption_of_a_frame)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
