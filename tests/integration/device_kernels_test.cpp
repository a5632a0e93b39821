// Compares devices, and the kernels of backends/cpu for every instruction set, with the definitions
// of kernels. A new device adds a row to `devices`.
#include <map>
#include <set>
#include <utility>

#include "backends/cpu/cpu_device.hpp"
#include "backends/local/fabric.hpp"
#include "backends/reference/reference_device.hpp"
#include "tests/backends/cuda/cpu_kernels.hpp"
#include "tests/integration/kernel_conformance.hpp"

using namespace lockstep;
using test::ConformanceCase;
using test::ConformanceRun;

namespace {

/// The tolerance of an output, relative to its largest value. Half a unit in the last of a
/// bfloat16's 8 bits is 2^-8; rounding at random may go to the farther neighbour, a whole unit
/// away. Attention may round probabilities and gradients of scores to bfloat16, too, where they are
/// operands of a product (the CPU with AMX; GPUs).
double tolerance(const Kernel& kernel, DType output, bool stochastic) {
  const bool attends =
      kernel.kind == KernelKind::AttentionForward || kernel.kind == KernelKind::AttentionBackward;
  switch (output) {
    case DType::F64:
      return 2e-14;
    case DType::F32:
      return 3e-6;
    case DType::BF16:
      return stochastic || attends ? 8e-3 : 4e-3;
    case DType::F16:
      return 5e-4;  // 2^-11
    case DType::U8:
      return 3e-6;  // what codes stand for
    default:
      return 0;  // indices
  }
}

}  // namespace

TEST_CASE("every kernel of the CPU, with every instruction set, equals its definition",
          "[integration]") {
  const cpu::KernelTables& tables = cpu::kernel_tables();
  const auto check = [&](const ConformanceCase& c, const ConformanceRun& run,
                         const std::vector<test::Numbers>& expected) {
    const Kernel& kernel = run.kernel();
    for (int t = 0; t < tables.count; ++t) {
      cuda::test::FakeGpu cpu(1, cuda::test::cpu_kernels(tables.tables[t]));
      INFO(test::text(c, kernel.dtype) << ", " << tables.tables[t].isa);
      REQUIRE(cpu.supports(kernel));
      const auto results = run.run(cpu, 1);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("output " << i);
        CHECK(test::distance(results[i], expected[i]) <=
              tolerance(kernel, kernel.out[i].dtype, c.stochastic));
      }
    }
  };
  test::for_each_run(test::conformance_cases(false),
                     {DType::F32, DType::F64, DType::BF16, DType::F16}, check);
}

TEST_CASE("every device that runs in this process computes every kernel by its definition",
          "[integration]") {
  local::Fabric fabric;
  const std::map<std::string, ConformanceRun::MakeDevice> devices = {
      {"cpu",
       [&](const Program& program) {
         return test::take(cpu::CpuDevice::create(program, 0, 1, fabric));
       }},
      {"reference", [&](const Program& program) {
         return test::take(reference::ReferenceDevice::create(program, 0, fabric));
       }}};
  const auto check = [&](const ConformanceCase& c, const ConformanceRun& run,
                         const std::vector<test::Numbers>& expected) {
    for (const auto& [name, make] : devices) {
      INFO(test::text(c, run.kernel().dtype) << ", " << name);
      const auto results = run.run(make, 1);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("output " << i);
        CHECK(test::distance(results[i], expected[i]) <=
              tolerance(run.kernel(), run.kernel().out[i].dtype, c.stochastic));
      }
    }
  };
  test::for_each_run(test::conformance_cases(false),
                     {DType::F32, DType::F64, DType::BF16, DType::F16}, check);
}

TEST_CASE("conformance takes every kernel with and without what is optional, and accumulating",
          "[integration]") {
  std::map<KernelKind, std::set<bool>> accumulates;
  std::map<std::pair<KernelKind, std::string_view>, std::set<bool>> present;
  std::set<std::pair<KernelKind, std::string_view>> optional;
  for (const ConformanceCase& c : test::conformance_cases(false)) {
    accumulates[c.kind].insert(c.accumulate);
    const Kernel kernel = ConformanceRun(c, DType::F32).kernel();
    const auto note = [&](const std::vector<OperandRow>& rows,
                          const std::vector<Operand>& operands) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].optional) optional.insert({c.kind, rows[i].name});
        present[{c.kind, rows[i].name}].insert(i < operands.size() && operands[i].present());
      }
    };
    const auto& scalars = info(c.kind).scalars;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      if (!scalars[i].starts_with('[')) continue;
      optional.insert({c.kind, scalars[i]});
      present[{c.kind, scalars[i]}].insert(kernel.scalars[i] != 0);
    }
    note(info(c.kind).in, kernel.in);
    note(info(c.kind).out, kernel.out);
  }
  // Those with "(+)=" in the table of kernels.
  using K = KernelKind;
  const std::set<K> sums = {K::Gemm,
                            K::ScaledGemm,
                            K::Largest,
                            K::ColumnSum,
                            K::AttentionForward,
                            K::AttentionBackward,
                            K::LayerNormBackwardWeight,
                            K::RmsNormBackwardWeight,
                            K::HeadNormBackwardWeight,
                            K::EmbeddingBackward,
                            K::CrossEntropy,
                            K::CrossEntropyParallel,
                            K::Sum,
                            K::NormSquared,
                            K::Conv2dBackwardWeight,
                            K::BatchNormBackwardWeight,
                            K::GroupedGemm,
                            K::GroupedGemmWeight,
                            K::RaggedGemm,
                            K::RaggedGemmWeight,
                            K::RaggedScaledGemmWeight,
                            K::RouteLoad};
  for (int k = 0; k < kNumKernelKinds; ++k) {
    const auto kind = static_cast<K>(k);
    INFO(info(kind).name);
    if (kind == K::Delay) continue;
    CHECK(accumulates[kind] == (sums.count(kind) > 0 ? std::set{false, true} : std::set{false}));
  }
  for (const auto& [operand, taken] : present) {
    INFO(info(operand.first).name << " " << operand.second);
    CHECK(taken == (optional.count(operand) > 0 ? std::set{false, true} : std::set{true}));
  }
}
