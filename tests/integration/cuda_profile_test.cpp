// Tests the way from a GPU to its simulation and back: a profile measured on a fake GPU is read and
// simulated, and the same scenario is run on that GPU and compared with its simulation.
#include <sstream>

#include "backends/cuda/calibrate.hpp"
#include "backends/cuda/cuda_backend.hpp"
#include "cli/cli.hpp"
#include "core/calibration/calibration.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/lower/lower.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/trace/chrome_trace.hpp"
#include "tests/backends/cuda/cpu_kernels.hpp"
#include "tests/backends/cuda/fake_gpu.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep;
using cuda::test::FakeGpu;

namespace {

struct Said {
  int status;
  std::string text;
};
Said lockstep_says(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  const Console console{out, out};
  const int status = run_cli(arguments, console);
  return {status, out.str()};
}

/// Accepts every kernel that a real GPU has, but computes nothing.
cuda::test::FakeKernels idle_kernels(bool fuses) {
  auto kernels = cuda::test::cpu_kernels();
  kernels.run = [](const cuda::KernelCall&) { return Result<void>(); };
  kernels.fuses = fuses;
  return kernels;
}

ClusterSpec calibrated(bool fuses) {
  FakeGpu gpu(1, idle_kernels(fuses));
  auto cluster = cuda::calibrate_gpu(gpu, {.quick = true, .ranks_per_device = 2});
  if (!cluster) FAIL(to_string(cluster.error()));
  CHECK(gpu.alive.empty());
  return std::move(*cluster);
}

}  // namespace

TEST_CASE("a GPU's profile is simulated, and a run on the GPU compared with it",
          "[integration][cuda]") {
  const TemporaryFolder folder;
  const std::string profile = folder / "gpu.toml";
  REQUIRE(write_file(profile, print_cluster_profile(calibrated(true))).ok());
  const std::string file = std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/cuda/train.toml";
  const std::vector<std::string> set = {"cluster.profile=" + profile,
                                        "cluster.ranks_per_device=2",
                                        "model.layers=2",
                                        "model.hidden=64",
                                        "model.heads=2",
                                        "model.vocab=256",
                                        "training.seq_len=32",
                                        "training.local_batch_size=2",
                                        "training.mixed_precision_param=bfloat16",
                                        "parallelism.data_parallel_shard_degree=2"};
  std::vector<std::string> simulate = {"run",     file,    "--backend",   "sim",
                                       "--quiet", "--out", folder / "sim"};
  for (const std::string& key : set) simulate.insert(simulate.end(), {"--set", key});
  const Said simulated = lockstep_says(simulate);
  INFO(simulated.text);
  REQUIRE(simulated.status == 0);
  const auto sim = read_run(folder / "sim");
  REQUIRE(sim.ok());
  CHECK((sim->report.step_time.v > 1e-6 && sim->report.step_time.v < 1));

  const LoadedScenario loaded = load_scenario(file, set);
  REQUIRE(loaded.ok());
  const Scenario& scenario = loaded.points.front().scenario;
  const auto program = lower(scenario);
  REQUIRE(program.ok());
  const CudaPlatform platform{[]() -> Result<std::vector<std::unique_ptr<cuda::Driver>>> {
                                auto kernels = cuda::test::cpu_kernels();
                                kernels.fuses = true;
                                std::vector<std::unique_ptr<cuda::Driver>> gpus;
                                gpus.push_back(std::make_unique<FakeGpu>(2, kernels));
                                return gpus;
                              },
                              {},
                              {}};
  RunOptions options;
  options.steps = 3;
  options.trace_from = 2;
  const auto ran = make_cuda_backend(platform, {.communicator = "local"})
                       ->run(*program, scenario.cluster, options);
  REQUIRE(ran.ok());
  const std::string trace = folder / "gpu.json.gz";
  REQUIRE(write_chrome_trace(ran->trace, trace).ok());
  const Said compared = lockstep_says({"compare", folder / "sim", trace});
  INFO(compared.text);
  CHECK(compared.status == 0);
  CHECK_THAT(compared.text, ContainsSubstring("op order"));
  CHECK_THAT(compared.text, ContainsSubstring("step time"));
  CHECK_THAT(compared.text, !ContainsSubstring("nan") && !ContainsSubstring("inf "));
  CHECK(ran->trace.spans.size() == sim->trace.spans.size());
}

TEST_CASE("GELU costs a simulated step what it adds to the product that takes it along",
          "[integration][cuda]") {
  const ClusterSpec together = calibrated(true), apart = calibrated(false);
  for (const KernelKind kind : {KernelKind::GeluForward, KernelKind::GeluBackward}) {
    const Kernel gelu = calibration_kernel(kind, DType::BF16, {4096 * 4 * 768});
    // An item of the fake GPU takes a microsecond: a kernel one, two as one nothing more.
    CHECK(kernel_time(gelu, apart.device).v == Approx(1.1e-6).epsilon(0.1));
    CHECK(kernel_time(gelu, together.device).v <
          together.device.launch_overhead.v + 0.1 * kernel_time(gelu, apart.device).v);
  }
  const Kernel norm = calibration_kernel(KernelKind::LayerNormForward, DType::BF16, {4096, 768});
  CHECK(kernel_time(norm, together.device).v == Approx(kernel_time(norm, apart.device).v));
}
