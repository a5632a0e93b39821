// Tests that need a GPU: kernels and strategies on the real device. Without one they are skipped
// and say why. scripts/gpu-check runs them by their tag, [gpu].
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>

#include "backends/backends.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "backends/cuda/calibrate.hpp"
#include "backends/cuda/toolkit/cudnn_library.hpp"
#include "backends/cuda/toolkit/platform.hpp"
#include "core/calibration/calibration.hpp"
#include "core/lower/lower.hpp"
#include "tests/catch.hpp"
#include "tests/integration/fused_pair.hpp"
#include "tests/integration/kernel_conformance.hpp"
#include "tests/integration/parity_table.hpp"

using namespace lockstep;
using test::parity_row;
using test::parity_scenario;
using test::ParityRow;

namespace {

/// The GPUs of this machine; empty, with a warning that says why, if there are none.
std::vector<std::unique_ptr<cuda::Driver>> gpus_or_reason() {
  auto gpus = cuda::platform().open_gpus();
  if (gpus) return std::move(*gpus);
  WARN("skipped: " << to_string(gpus.error()));
  return {};
}

/// Ends LOCKSTEP_TEST_SECONDS from now on; if that is not set, there is no limit.
class TimeLimit {
 public:
  TimeLimit() {
    if (const char* seconds = std::getenv("LOCKSTEP_TEST_SECONDS")) {
      end_ = Clock::now() + std::chrono::seconds(std::atoi(seconds));
    }
  }
  bool over() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_ = Clock::time_point::max();
};

/// The tolerance of a kernel. Angles in float64 are thousands of turns, and only as exact as pow(),
/// which is 2 units in the last place on a GPU and 1 on the CPU.
double kernel_tolerance(DType dtype, KernelKind kind = KernelKind::Gemm) {
  if (kind == KernelKind::Rope && dtype == DType::F64) return 1e-11;
  return dtype == DType::F64 ? 1e-13 : dtype == DType::F32 ? 2e-5 : 1e-2;
}

/// A backend on the GPU with poisoned arenas: what is read before it is written is NaN.
std::unique_ptr<Backend> gpu_backend(const CudaOptions& options) {
  return make_cuda_backend(cuda_platform(), options, {.poison = true});
}

RunResult train(Backend& backend, const Scenario& s, int trace_from = 0) {
  const auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  RunOptions options;
  options.steps = test::kParitySteps;
  options.trace_from = trace_from;
  auto run = backend.run(*program, s.cluster, options);
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

/// The largest relative difference of the losses of a step.
double loss_distance(const RunResult& a, const RunResult& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.trace.steps.size(); ++i) {
    const double x = a.trace.steps[i].loss, y = b.trace.steps[i].loss;
    const double d = std::abs(x - y) / std::abs(y);
    worst = std::isnan(d) ? HUGE_VAL : std::max(worst, d);
  }
  return worst;
}

}  // namespace

TEST_CASE("every kernel on the GPU equals its definition", "[integration][gpu]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  // Compute sanitizers slow kernels down a hundredfold, so they get small shapes only.
  const bool large = std::getenv("LOCKSTEP_SMALL_CASES") == nullptr;
  const auto check = [&](const test::ConformanceCase& c, const test::ConformanceRun& run,
                         const std::vector<test::Numbers>& expected) {
    const DType dtype = run.kernel().dtype;
    INFO(test::text(c, dtype));
    REQUIRE(gpus.front()->supports(run.kernel()));
    for (const std::int64_t shift : {0, 1}) {
      const auto results = run.run(*gpus.front(), shift);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("output " << i << ", shifted by " << shift);
        CHECK(test::distance(results[i], expected[i]) <= kernel_tolerance(dtype, c.kind));
      }
      const auto again = run.run(*gpus.front(), shift);
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(again[i] == results[i]);
    }
  };
  test::for_each_run(test::conformance_cases(large), {DType::F32, DType::F64, DType::BF16}, check);
}

TEST_CASE("a product that takes GELU or its gradient along equals the two kernels",
          "[integration][gpu]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  int fused = 0;
  for (const bool backward : {false, true}) {
    const test::FusedPair pair(64, 96, 40, backward, DType::BF16);
    const auto apart = pair.run(*gpus.front(), false), together = pair.run(*gpus.front(), true);
    if (together.empty()) continue;  // no such epilogue in this cuBLASLt
    ++fused;
    REQUIRE(together.size() == apart.size());
    for (std::size_t i = 0; i < apart.size(); ++i) {
      INFO((backward ? "backward" : "forward") << ", output " << i);
      CHECK(test::distance(together[i], apart[i]) <= kernel_tolerance(DType::BF16));
    }
  }
  WARN("fused: " << fused << " of 2");
}

#ifdef LOCKSTEP_HAVE_CUDNN
TEST_CASE("attention and convolutions by cuDNN equal their definitions", "[integration][gpu]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  cuda::Driver& gpu = *gpus.front();
  if (const auto ready = gpu.use_cudnn(); !ready) {
    WARN("skipped: " << to_string(ready.error()));
    return;
  }
  const auto library = cuda::CudnnLibrary::open();  // to ask which kernels it has
  if (!library) FAIL(to_string(library.error()));
  int taken = 0;
  std::vector<test::ConformanceCase> cases;
  for (test::ConformanceCase& c : test::conformance_cases(true)) {
    const test::ConformanceRun run(c, DType::BF16);
    if ((*library)->workspace_bytes(run.kernel())) cases.push_back(std::move(c));
  }
  const auto check = [&](const test::ConformanceCase& c, const test::ConformanceRun& run,
                         const std::vector<test::Numbers>& expected) {
    ++taken;
    INFO(test::text(c, DType::BF16));
    const auto results = run.run(gpu, 0), again = run.run(gpu, 0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("output " << i);
      CHECK(test::distance(results[i], expected[i]) <= kernel_tolerance(DType::BF16));
      CHECK(again[i] == results[i]);
    }
  };
  test::for_each_run(cases, {DType::BF16}, check);
  CHECK(taken > 0);
  WARN("cuDNN took " << taken << " cases");
}

TEST_CASE("training with cuDNN's attention trains as own kernels do", "[integration][gpu]") {
  if (gpus_or_reason().empty()) return;
  const auto backend = gpu_backend({.communicator = "local"});
  const auto cudnn = gpu_backend({.communicator = "local", .cudnn = true});
  for (const Architecture kind : {Architecture::Gpt2, Architecture::Llama}) {
    // Heads of 64.
    const Scenario s = parity_scenario(
        kind, parity_row("row", "training.mixed_precision_param=bfloat16 model.hidden=256"),
        DType::F32);
    CHECK(loss_distance(train(*cudnn, s), train(*backend, s)) < 1e-2);
  }
}
#endif

namespace {

/// A row of a parity table, with a type and a model.
struct ParityRun {
  ParityRow row;
  Architecture kind;
  DType dtype;
  std::string model() const {
    const char* const name = kind == Architecture::Gpt2    ? "gpt2"
                             : kind == Architecture::Llama ? "llama"
                             : kind == Architecture::Vit   ? "vit"
                                                           : "resnet";
    return std::string(to_string(dtype)) + " " + name;
  }
};

/// Compares each run, on ranks that share one GPU, with one rank of the CPU, until the time is
/// over.
void check_parity(const std::vector<ParityRun>& runs, double tolerance) {
  const auto gpu = gpu_backend({.communicator = "local"});
  const auto cpu = make_cpu_backend();
  const TimeLimit limit;
  std::map<std::string, RunResult> references;
  int done = 0;
  for (const ParityRun& run : runs) {
    const ParityRow& row = run.row;
    if (limit.over()) break;
    ++done;
    INFO(row.name << " " << run.model());
    std::cout << row.name << " " << run.model() << std::flush;
    const ParityRow single = row.single_rank();
    const std::string key = single.keys + run.model();
    if (references.count(key) == 0) {
      references.emplace(key, train(*cpu, parity_scenario(run.kind, single, run.dtype)));
    }
    const Scenario s = parity_scenario(run.kind, row, run.dtype);
    const double distance = loss_distance(train(*gpu, s), references.at(key));
    std::cout << ": " << distance << std::endl;
    CHECK(distance <= row.tolerance(run.dtype, run.dtype == DType::F64 ? 1e-11 : tolerance));
  }
  std::cout << "progress: " << done << " of " << runs.size() << " runs" << std::endl;
  CHECK(done > 0);
}

}  // namespace

TEST_CASE("every strategy on logical ranks of one GPU trains as one rank of the CPU does",
          "[integration][gpu]") {
  if (gpus_or_reason().empty()) return;
  const std::vector<ParityRow> rows = test::parity_rows();
  // All layouts are run in each of these ways, one way after the other, so that a short run has
  // seen all layouts.
  constexpr std::pair<DType, Architecture> kWays[] = {{DType::F64, Architecture::Gpt2},
                                                      {DType::F32, Architecture::Llama},
                                                      {DType::F64, Architecture::Llama},
                                                      {DType::F32, Architecture::Gpt2}};
  std::vector<ParityRun> runs;
  for (std::size_t pass = 0; pass < std::size(kWays); ++pass) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto [dtype, kind] = kWays[(pass + i) % std::size(kWays)];
      if (!rows[i].trains_in(dtype)) continue;
      runs.push_back({rows[i], kind, dtype});
    }
  }
  check_parity(runs, 2e-5);
}

TEST_CASE("residual networks on logical ranks of one GPU train as one rank of the CPU does",
          "[integration][gpu]") {
  if (gpus_or_reason().empty()) return;
  std::vector<ParityRun> runs;
  for (const DType dtype : {DType::F64, DType::F32}) {
    for (const char* block : {"model.bottleneck=true", "model.bottleneck=false"}) {
      for (const ParityRow& row : test::image_rows(block)) {
        if (!row.trains_in(dtype)) continue;
        runs.push_back({row, Architecture::Resnet, dtype});
      }
    }
  }
  check_parity(runs, 5e-5);
}

TEST_CASE("vision transformers on logical ranks of one GPU train as one rank of the CPU does",
          "[integration][gpu]") {
  if (gpus_or_reason().empty()) return;
  std::vector<ParityRun> runs;
  for (const DType dtype : {DType::F64, DType::F32}) {
    for (const ParityRow& row : test::patch_rows()) {
      if (row.trains_in(dtype)) runs.push_back({row, Architecture::Vit, dtype});
    }
  }
  check_parity(runs, 2e-5);
}

TEST_CASE("how long products and attention take on the GPU", "[integration][gpu][.speed]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  using K = KernelKind;
  const auto time = [&](const std::string& name, K kind, const std::vector<std::int64_t>& dims) {
    const auto seconds =
        cuda::measure(*gpus.front(), calibration_kernel(kind, DType::BF16, dims), 5, 10);
    if (!seconds) FAIL(name << ": " << to_string(seconds.error()));
    std::cout << "speed: " << name << " " << std::lround(1e6 * seconds->v) << " us" << std::endl;
  };
  // The shapes are those of tests/oracle/bench_kernels_torch.py: rows, columns, inner; batch,
  // positions, heads.
  for (const auto& [m, n, k] : {std::array{8192, 8192, 8192}, std::array{32768, 3072, 768},
                                std::array{32768, 50304, 768}, std::array{8192, 6400, 1600}}) {
    time("product " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
         K::Gemm, {m, n, k, 0, 1});
  }
  const auto attention = [&](const std::string& by) {
    for (const auto& [b, s, h, d] : {std::array{32, 1024, 12, 64}, std::array{8, 1024, 25, 64},
                                     std::array{4, 4096, 16, 128}}) {
      const std::string shape = std::to_string(b) + "x" + std::to_string(s) + "x" +
                                std::to_string(h) + "x" + std::to_string(d);
      time(by + "attention forward " + shape, K::AttentionForward, {b, s, h, h, d});
      time(by + "attention backward " + shape, K::AttentionBackward, {b, s, h, h, d});
    }
  };
  attention("");
  if (const auto cudnn = gpus.front()->use_cudnn(); !cudnn) {
    WARN("without cuDNN: " << to_string(cudnn.error()));
    return;
  }
  attention("cuDNN's ");
}

TEST_CASE("steps launched as graphs train as issued ones on the GPU", "[integration][gpu]") {
  if (gpus_or_reason().empty()) return;
  for (const char* communicator : {"local", "nccl"}) {
    const bool nccl = std::string(communicator) == "nccl";
    if (nccl && !cuda::platform().open_nccl()) continue;
    const Scenario s =
        parity_scenario(Architecture::Gpt2, parity_row("row", "accumulation=2"), DType::F32);
    INFO(communicator);
    const auto issued = gpu_backend({.communicator = communicator});
    const auto graphs = gpu_backend({.communicator = communicator, .graphs = true});
    CHECK(loss_distance(train(*graphs, s, 4), train(*issued, s)) == 0);
  }
}

TEST_CASE("NCCL with a GPU for every rank trains as logical ranks do", "[integration][gpu]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  if (const auto nccl = cuda::platform().open_nccl(); !nccl) {
    WARN("skipped: " << to_string(nccl.error()));
    return;
  }
  const auto nccl_ranks = gpu_backend({.communicator = "nccl"});
  const auto logical_ranks = gpu_backend({.communicator = "local"});
  const int most = std::min<int>(4, static_cast<int>(gpus.size()));
  for (int ranks = 1; ranks <= most; ranks *= 2) {
    for (const std::string layout : {"dp_replicate", "dp_shard", "pp"}) {
      const std::string keys =
          layout + "=" + std::to_string(ranks) + (layout == "pp" ? " mb=4" : "");
      INFO(keys);
      const Scenario s = parity_scenario(Architecture::Gpt2,
                                         parity_row("row", ranks == 1 ? "" : keys), DType::F64);
      CHECK(loss_distance(train(*nccl_ranks, s), train(*logical_ranks, s)) <= 1e-11);
    }
  }
  WARN("NCCL with 1 to " << most << " ranks");
}
