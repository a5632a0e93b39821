// Measures models at the scale for which tensor parallelism is meant: lowering a scenario file to a
// program, and simulating its step. Counters are the ops of the program, with one rank of each
// role; the ops of all ranks; and the bytes of program and timeline per op.
#include <benchmark/benchmark.h>

#include <stdexcept>
#include <string>

#include "backends/sim/engine.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

Scenario scenario(const std::string& name) {
  const std::string path = LOCKSTEP_SOURCE_DIR "/scenarios/tensor-parallel/" + name + ".toml";
  const LoadedScenario loaded = load_scenario(path, {});
  if (!loaded.ok()) throw std::runtime_error(to_string(loaded.errors.front()));
  return loaded.points.front().scenario;
}

void count_ops(benchmark::State& state, const Program& program) {
  double once = 0, all = 0, bytes = 0;
  for (const Role& role : program.roles) {
    const auto ops = static_cast<double>(role.ops.size());
    once += ops;
    all += ops * static_cast<double>(role.ranks.size());
    bytes += ops * sizeof(Op) + static_cast<double>(role.buffers.size() * sizeof(Buffer)) +
             static_cast<double>((role.after.size() + role.args.size()) * sizeof(std::int32_t)) +
             ops * sizeof(sim::OpTiming);
  }
  state.counters["ops"] = once;
  state.counters["ops_of_all_ranks"] = all;
  state.counters["MB"] = bytes / 1e6;
}

void lower_scenario(benchmark::State& state, const std::string& name) {
  const Scenario s = scenario(name);
  for (auto _ : state) {
    const Result<Program> program = lower(s);
    if (!program) {
      state.SkipWithError(program.error().message.c_str());
      return;
    }
    count_ops(state, *program);
  }
}

void simulate_scenario(benchmark::State& state, const std::string& name) {
  const Scenario s = scenario(name);
  const Result<Program> program = lower(s);
  if (!program) {
    state.SkipWithError(program.error().message.c_str());
    return;
  }
  for (auto _ : state) {
    const auto timeline = sim::simulate(*program, s.cluster, s.what_if);
    benchmark::DoNotOptimize(timeline->makespan);
  }
  count_ops(state, *program);
}

[[maybe_unused]] const int kRegistered = [] {
  for (const std::string name :
       {"llama2-70b-tp8-pp4-dp2-64xh100", "gpt3-175b-1024xa100", "llama3-405b-16384xh100"}) {
    benchmark::RegisterBenchmark(("lower/" + name).c_str(), lower_scenario, name)
        ->MeasureProcessCPUTime()  // of all threads
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("simulate/" + name).c_str(), simulate_scenario, name)
        ->MeasureProcessCPUTime()  // of all threads
        ->Unit(benchmark::kMillisecond);
  }
  return 0;
}();

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
