// Measures how long the host takes to issue a step to a GPU, without the time of the driver's own
// calls: GPT-2 124M on a GPU that does nothing. A real GPU takes 10 to 1000 us for a kernel of this
// step.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/local_communicator.hpp"
#include "core/lower/lower.hpp"
#include "core/run/process.hpp"
#include "core/run/rank_runner.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep::cuda {
namespace {

/// A driver that accepts everything and does nothing. Memory of the GPU is an address that nobody
/// reads.
struct IdleGpu final : Driver {
  const GpuInfo& info() const override { return info_; }
  Result<std::byte*> allocate(Memory where, std::int64_t bytes) override {
    if (where == Memory::Device) return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    return static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes)));
  }
  void release(Memory where, std::byte* memory) override {
    if (where == Memory::PinnedHost) ::operator delete(memory);
  }
  Result<StreamHandle> create_stream(Priority) override {
    return reinterpret_cast<StreamHandle>(&info_);
  }
  void release(StreamHandle) override {}
  Result<EventHandle> create_event(Timing) override {
    return reinterpret_cast<EventHandle>(&info_);
  }
  void release(EventHandle) override {}
  Result<void> copy(StreamHandle, std::byte*, const std::byte*, std::int64_t) override {
    return {};
  }
  Result<void> fill(StreamHandle, std::byte*, std::uint8_t, std::int64_t) override { return {}; }
  Result<void> run_on_host(StreamHandle, std::function<void()>) override { return {}; }
  Result<void> record(EventHandle, StreamHandle) override { return ++events, Result<void>(); }
  Result<void> wait(StreamHandle, EventHandle) override { return ++events, Result<void>(); }
  Result<void> begin_capture(StreamHandle) override { return {}; }
  Result<GraphHandle> end_capture(StreamHandle) override { return GraphHandle{}; }
  Result<void> launch(StreamHandle, GraphHandle) override { return {}; }
  void release(GraphHandle) override {}
  Result<bool> idle(StreamHandle) override { return true; }
  Result<void> synchronize(StreamHandle) override { return {}; }
  Result<Seconds> elapsed(EventHandle, EventHandle) override { return Seconds{}; }
  bool supports(const Kernel&) const override { return true; }
  std::int64_t scratch_bytes(const Kernel&) const override { return 0; }
  Result<void> launch(StreamHandle, const KernelCall& call) override {
    benchmark::DoNotOptimize(call.in[0]);
    return ++kernels, Result<void>();
  }
  Result<void> add_in_order(StreamHandle, DType, std::int64_t, std::span<const std::byte* const>,
                            std::span<std::byte* const>, bool) override {
    return {};
  }
  Result<void> exchange_rows(StreamHandle, const RowExchange&) override { return {}; }
  std::int64_t kernels = 0, events = 0;

 private:
  GpuInfo info_{"idle", Bytes{std::int64_t{1} << 40}, 132, 90};
};

void issue_step(benchmark::State& state, bool timed) {
  const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/cuda/train.toml";
  const LoadedScenario loaded = load_scenario(path, {"training.mixed_precision_param=bfloat16"});
  if (!loaded.ok()) return state.SkipWithError(to_string(loaded.errors.front()).c_str());
  const Scenario& scenario = loaded.points.front().scenario;
  const auto program = lower(scenario);
  if (!program) return state.SkipWithError(to_string(program.error()).c_str());
  IdleGpu gpu;
  SoleProcess process;
  Node node(gpu, process);
  auto device = CudaDevice::create(*program, 0, gpu, node);
  if (!device) return state.SkipWithError(to_string(device.error()).c_str());
  LocalCommunicator communicator(*program, 0, **device);
  const BatchSource nothing = [](std::int64_t, std::span<std::int32_t>, std::span<std::int32_t>) {};
  RankRunner runner(*program, {0, device->get(), &communicator}, nothing);
  int step = 0;
  for (auto _ : state) {
    const auto done = runner.run_step({step++, 1e-3, timed}, 0, {}, [] { return Result<void>(); });
    if (!done) return state.SkipWithError(to_string(done.error()).c_str());
  }
  const auto per_step = [&](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(step);
  };
  state.counters["ops"] = static_cast<double>(program->roles[0].ops.size());
  state.counters["kernels"] = per_step(gpu.kernels);
  state.counters["events"] = per_step(gpu.events);
  state.SetItemsProcessed(gpu.kernels);
}
void issue(benchmark::State& state) { issue_step(state, false); }
void issue_timed(benchmark::State& state) { issue_step(state, true); }

BENCHMARK(issue)->Unit(benchmark::kMicrosecond);
BENCHMARK(issue_timed)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep::cuda

BENCHMARK_MAIN();
