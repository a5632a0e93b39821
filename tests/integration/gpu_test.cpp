// What needs a GPU: kernels and strategies on the real device. Without one these say why and are
// skipped. scripts/gpu-check runs them by their tag, [gpu].
#include <chrono>
#include <cmath>
#include <map>

#include "backends/backends.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "backends/cuda/toolkit/platform.hpp"
#include "core/lower/lower.hpp"
#include "tests/catch.hpp"
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

double kernel_tolerance(DType dtype) {
  return dtype == DType::F64 ? 1e-13 : dtype == DType::F32 ? 2e-5 : 1e-2;
}

RunResult train(Backend& backend, const Scenario& s, const std::string& communicator) {
  const auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  RunOptions options;
  options.steps = test::kParitySteps;
  options.communicator = communicator;
  auto run = backend.run(*program, s, options);
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

/// Largest relative difference of a step's loss.
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

TEST_CASE("every kernel on the GPU equals float64 on the CPU", "[integration][gpu]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  // Compute sanitizers slow kernels a hundredfold: small shapes then.
  const bool large = std::getenv("LOCKSTEP_SMALL_CASES") == nullptr;
  for (const test::ConformanceCase& c : test::conformance_cases(large)) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
      const test::ConformanceRun run(c, dtype);
      std::string dims;
      for (const std::int64_t d : c.dims) dims += " " + std::to_string(d);
      INFO(info(c.kind).name << " " << to_string(dtype) << dims);
      REQUIRE(gpus.front()->supports(run.kernel()));
      const auto expected = run.reference();
      for (const std::int64_t shift : {0, 1}) {
        const auto results = run.run(*gpus.front(), shift);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          INFO("output " << i << ", shifted by " << shift);
          CHECK(test::distance(results[i], expected[i]) <= kernel_tolerance(dtype));
        }
        const auto again = run.run(*gpus.front(), shift);
        for (std::size_t i = 0; i < expected.size(); ++i) CHECK(again[i] == results[i]);
      }
    }
  }
}

TEST_CASE("a product that takes GELU or its gradient along equals the two kernels",
          "[integration][gpu]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  int fused = 0;
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const bool backward : {false, true}) {
      const test::FusedPair pair(64, 96, 40, backward, dtype);
      const auto apart = pair.run(*gpus.front(), false), together = pair.run(*gpus.front(), true);
      if (together.empty()) continue;  // no such epilogue in this cuBLASLt
      ++fused;
      REQUIRE(together.size() == apart.size());
      for (std::size_t i = 0; i < apart.size(); ++i) {
        INFO(to_string(dtype) << (backward ? " backward" : " forward") << ", output " << i);
        CHECK(test::distance(together[i], apart[i]) <= kernel_tolerance(dtype));
      }
    }
  }
  WARN("fused: " << fused << " of 4");
}

TEST_CASE("every strategy on logical ranks of one GPU trains as one rank of the CPU does",
          "[integration][gpu]") {
  if (gpus_or_reason().empty()) return;
  const auto gpu = make_cuda_backend(cuda_platform(), {.poison = true});
  const auto cpu = make_cpu_backend();
  std::map<std::string, RunResult> references;
  for (const DType dtype : {DType::F64, DType::F32}) {
    for (const Architecture kind : {Architecture::Gpt2, Architecture::Llama}) {
      for (const ParityRow& row : test::parity_rows()) {
        if (row.within > 0 && dtype != DType::F32) continue;
        if (row.keys.find("model.experts") != std::string::npos) continue;  // no such kernels yet
        if (row.keys.find("allgather") != std::string::npos) continue;      // likewise
        INFO(row.name << " " << to_string(dtype));
        const ParityRow single = row.single_rank();
        const std::string key = single.keys + std::string(to_string(dtype)) +
                                (kind == Architecture::Gpt2 ? "gpt2" : "llama");
        if (references.count(key) == 0) {
          references.emplace(key, train(*cpu, parity_scenario(kind, single, dtype), ""));
        }
        const RunResult run = train(*gpu, parity_scenario(kind, row, dtype), "local");
        const double within = row.within > 0 ? row.within : dtype == DType::F64 ? 1e-11 : 2e-5;
        CHECK(loss_distance(run, references.at(key)) <= within);
      }
    }
  }
}

TEST_CASE("NCCL with a GPU for every rank trains as logical ranks do", "[integration][gpu]") {
  const auto gpus = gpus_or_reason();
  if (gpus.empty()) return;
  if (const auto nccl = cuda::platform().open_nccl(); !nccl) {
    WARN("skipped: " << to_string(nccl.error()));
    return;
  }
  const auto backend = make_cuda_backend(cuda_platform(), {.poison = true});
  const int most = std::min<int>(4, static_cast<int>(gpus.size()));
  for (int ranks = 1; ranks <= most; ranks *= 2) {
    for (const std::string layout : {"dp_replicate", "dp_shard", "pp"}) {
      const std::string keys =
          layout + "=" + std::to_string(ranks) + (layout == "pp" ? " mb=4" : "");
      INFO(keys);
      const Scenario s = parity_scenario(Architecture::Gpt2,
                                         parity_row("row", ranks == 1 ? "" : keys), DType::F64);
      CHECK(loss_distance(train(*backend, s, "nccl"), train(*backend, s, "local")) <= 1e-11);
    }
  }
  WARN("NCCL with 1 to " << most << " ranks");
}
