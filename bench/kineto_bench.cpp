// Measures the time and the memory that it takes to open a Kineto trace: to read it alone, and with
// the report that `lockstep report` and the application make of it. The argument is the size of the
// JSON in MB.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "bench/kineto_file.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/trace/kineto/kineto.hpp"

namespace lockstep {
namespace {

using namespace bench;

void open_trace(benchmark::State& state, bool compress) {
  const std::string path = kineto_file(state.range(0), compress);
  for (auto _ : state) {
    const double before = memory_mb("VmRSS");
    reset_peak();
    const Result<ImportedTrace> imported = read_kineto({path});
    if (!imported) {
      state.SkipWithError(imported.error().message.c_str());
      break;
    }
    state.counters["spans"] = static_cast<double>(imported->trace.spans.size());
    state.counters["flows"] = static_cast<double>(imported->trace.flows.size());
    state.counters["peak_MB"] = memory_mb("VmHWM") - before;
    state.counters["kept_MB"] = memory_mb("VmRSS") - before;
  }
  std::filesystem::remove(path);
}
void open_with_report(benchmark::State& state) {
  const std::string path = kineto_file(state.range(0), false);
  for (auto _ : state) {
    const double before = memory_mb("VmRSS");
    reset_peak();
    const Result<Run> run = open_run(path);
    if (!run) {
      state.SkipWithError(run.error().message.c_str());
      break;
    }
    state.counters["spans"] = static_cast<double>(run->trace.spans.size());
    state.counters["peak_MB"] = memory_mb("VmHWM") - before;
  }
  std::filesystem::remove(path);
}
BENCHMARK(open_with_report)->Arg(300)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(open_trace, json, false)->Arg(30)->Arg(300)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(open_trace, json_gz, true)->Arg(300)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep

BENCHMARK_MAIN();
