// The search for a layout, on six problems (docs/search.md): seconds on two threads, how many
// layouts there were, how many were estimated and simulated, and the best that was found.
#include <benchmark/benchmark.h>

#include <string>

#include "core/plan/best_first.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

struct Problem {
  const char *model, *cluster;
  int nodes, seq_len, batch;
};

void search(benchmark::State& state, const Problem& p) {
  const std::string text =
      "[model]\npreset = \"" + std::string(p.model) +
      "\"\n[training]\nseq_len = " + std::to_string(p.seq_len) +
      "\nlocal_batch_size = 1\nglobal_batch_size = " + std::to_string(p.batch) +
      "\nmixed_precision_param = \"bfloat16\"\n[cluster]\npreset = \"" + p.cluster +
      "\"\nnodes = " + std::to_string(p.nodes) + "\n";
  const LoadedScenario loaded = parse_scenario(text, "problem", {});
  if (!loaded.ok()) {
    state.SkipWithError(loaded.errors.front().message.c_str());
    return;
  }
  SpaceOptions options;
  options.threads = 2;
  for (auto _ : state) {
    const Result<SpaceResult> found =
        search_space(loaded.points.front().scenario, simulated_layout, simulated_probe, options);
    if (!found) {
      state.SkipWithError(found.error().message.c_str());
      return;
    }
    const SpaceCounts& counts = found->counts;
    const auto count = [](std::size_t n) { return static_cast<double>(n); };
    state.counters["layouts"] = count(counts.layouts);
    state.counters["cannot_fit"] = count(counts.too_large);
    state.counters["cannot_win"] = count(counts.too_slow);
    state.counters["estimated"] = count(counts.estimated);
    state.counters["simulated"] = count(counts.simulated);
    state.counters["step_s"] = found->found.front().figures.step_time.v;
    state.SetLabel(layout_name(found->found.front().scenario));
  }
}

#define LOCKSTEP_PROBLEM(name, ...)                     \
  BENCHMARK_CAPTURE(search, name, Problem{__VA_ARGS__}) \
      ->Unit(benchmark::kSecond)                        \
      ->UseRealTime()                                   \
      ->Iterations(1)
LOCKSTEP_PROBLEM(llama2_7b_8_h100, "llama2-7b", "h100", 1, 4096, 128);
LOCKSTEP_PROBLEM(llama3_70b_64_h100, "llama3-70b", "h100", 8, 8192, 256);
LOCKSTEP_PROBLEM(llama3_70b_128_h100, "llama3-70b", "h100", 16, 8192, 256);
LOCKSTEP_PROBLEM(mixtral_8x7b_64_h100, "mixtral-8x7b", "h100", 8, 4096, 256);
LOCKSTEP_PROBLEM(gpt3_175b_1024_a100, "gpt3-175b", "a100-80", 128, 2048, 1536);
LOCKSTEP_PROBLEM(llama3_405b_16384_h100, "llama3-405b", "h100", 2048, 8192, 2048);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
