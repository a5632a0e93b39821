// Tests that the kernels of large models are launched within the limits of a GPU. Launches are only
// checked and no block runs, because no test could compute these shapes.
#include <algorithm>
#include <vector>

#include "backends/cuda/kernels/registry.hpp"
#include "core/calibration/calibration.hpp"
#include "tests/catch.hpp"

namespace lockstep::cuda::emulated {
namespace {

struct Shape {
  KernelKind kind;
  std::vector<std::int64_t> dims;
  std::vector<double> scalars = {};
  int optional_inputs = 0, optional_outputs = 0;
};

constexpr std::int64_t kTokens = std::int64_t{1} << 21;  // 64 sequences of 32768 tokens
constexpr std::int64_t kElements = std::int64_t{1} << 34;

std::vector<Shape> shapes() {
  using K = KernelKind;
  return {
      {K::Gemm, {kTokens, 3072, 768, 0, 1}},
      {K::Gemm, {kTokens, 50304, 768, 0, 1}},
      {K::Gemm, {50304, 12288, kTokens, 1, 0}},
      {K::Quantize, {kTokens, 12288, 0, 1, 128}, {3}, 0, 1},
      {K::Quantize, {kTokens, 12288, 1, 1, 32}, {3}, 0, 1},
      {K::Quantize, {kTokens, 12288, 0, kTokens, 12288, 8}, {3}, 1, 1},
      {K::ScaledGemm, {kTokens, 12288, 12288, 1, 128, 128}, {3, 3}},
      {K::ScaledGemm, {12288, 49152, kTokens, 1, 1, 32, 1}, {2, 3}},
      {K::RaggedQuantize, {256, kTokens, kTokens, 12288, 0, 128, 1, kTokens + 32768}, {3}},
      {K::RaggedQuantize, {256, kTokens, kTokens, 12288, 1, 32, 1, kTokens + 8192}, {3}},
      {K::RaggedScaledGemm, {8, 32, kTokens, kTokens, 12288, 4096, 128, 128}, {3, 3, 0, 1}},
      {K::RaggedScaledGemmWeight, {8, 32, kTokens + 32768, kTokens, 12288, 4096, 128}, {2, 3}},
      {K::ColumnSum, {kTokens, 12288}},
      {K::ColumnSum, {1, kElements}},
      {K::ColumnSum, {64, 32768 * 12288}},  // gradients of positions
      {K::AttentionForward, {2048, 1024, 96, 96, 64}},
      {K::AttentionBackward, {2048, 1024, 96, 96, 64}},
      {K::AttentionForward, {1, 1 << 20, 128, 8, 128}},
      {K::AttentionBackward, {1, 1 << 20, 128, 8, 128}},
      {K::AttentionBackward, {64, 32768, 16, 16, 100}},
      {K::LayerNormForward, {kTokens, 12288}, {1e-5}},
      {K::LayerNormBackwardInput, {kTokens, 12288}},
      {K::LayerNormBackwardWeight, {kTokens, 12288}},
      {K::GeluForward, {kElements}},
      {K::SwigluBackward, {kTokens, 28672}},
      {K::Rope, {64, 32768, 136, 128, 144, 0}, {10000}},
      {K::Rope, {64, 32768, 256, 64, 384, 0, 128}, {10000}},
      {K::JoinLatent, {kTokens, 128, 128, 64, 128}},
      {K::PartLatent, {kTokens, 128, 128, 64, 128}},
      {K::EmbeddingForward, {kTokens, 12288, 32768, 50304}},
      {K::EmbeddingBackward, {kTokens, 12288, 32768, 50304}, {}, 0, 1},
      {K::CrossEntropy, {kTokens, 50304}, {1}},
      {K::CrossEntropyStats, {kTokens, 50304}},
      {K::CrossEntropyParallel, {kTokens, 50304, 8}, {1}},
      {K::Add, {kTokens, 12288}},
      {K::Dropout, {kTokens, 12288}, {0.1, 0}},
      {K::Regroup, {kTokens, 8, 4096, 1024, 1024, 0, 0}},
      {K::NormSquared, {kElements, 1}},
      {K::NormSquared, {kElements, 4096}},
      {K::ClipCoefficient, {4096}, {1}},
      {K::AdamW, {kElements}, {0.9, 0.95, 1e-8, 0.1}},
      {K::Momentum, {kElements}, {0.95, 1}},
      {K::Normalize, {kElements}, {1e-7}},
      {K::Muon, {kElements}, {1, 0.1}},
      {K::ReplicaTerm, {kElements}, {0.5}},
      {K::OuterSgd, {kElements}, {0.7, 0.9, 1}},
      {K::ToCodes, {kElements, 1, 1, 2048, 8, kElements / 4}},
      {K::FromCodes, {kElements / 1024, 1024, 2048, 4, kElements / 8192, 1024}},
      {K::Orthonormalize, {kTokens, 4}, {1e-5, 0}},
      {K::FactorSums, {kElements, 0, 1, 50304, std::int64_t{50304} * 12288, 0, 1}, {1}},
      {K::FactorMoments, {kTokens}, {1, -0.8, 1e-30}},
      {K::FactoredSquares, {kElements, 0, 1, 50304, std::int64_t{50304} * 12288, 0, 1}, {1}},
      {K::Adafactor, {kElements, 0, 1, 50304, std::int64_t{50304} * 12288, 0, 1}, {1, 1, 0, 0}},
      {K::Conv2dForward, {4096, 56, 56, 64, 256, 1, 1}},
      {K::Conv2dBackwardInput, {4096, 56, 56, 64, 256, 1, 1}},
      {K::Conv2dBackwardWeight, {4096, 56, 56, 64, 256, 1, 1}},
      {K::Conv2dForward, {4096, 224, 224, 3, 64, 7, 2}},
      {K::BatchNormStatistics, {std::int64_t{4096} * 112 * 112, 64}},
      {K::BatchNormForward, {std::int64_t{4096} * 112 * 112, 64}, {1e-5}},
      {K::BatchNormBackwardSums, {std::int64_t{4096} * 112 * 112, 64}, {1e-5}},
      {K::MaxPoolForward, {4096, 112, 112, 64, 3, 2}},
      {K::MaxPoolBackward, {4096, 112, 112, 64, 3, 2}},
      {K::AveragePoolBackward, {4096, 49, 2048}},
      {K::GroupedGemm, {256, 64, 4096, 2048, 7168, 1}},
      {K::GroupedGemmWeight, {256, 64, 4096, 2048, 7168}, {}, 0, 1},
      {K::RouteForward, {kTokens, 256, 8, 81920}, {}, 1},
      {K::RouteBackward, {kTokens, 256, 8, 81920}, {0.01}},
      {K::RouteLoad, {kTokens, 256, 8, 81920}},
      {K::RouterBias, {256}, {0.001}, 1},
      {K::RouteBalance, {kTokens, 256}, {0.01}},
      {K::CombineForward, {kTokens, 7168, 8, 256 * 81920}},
      {K::CombineBackward, {kTokens, 7168, 8, 256 * 81920}},
  };
}

}  // namespace

TEST_CASE("kernels of large models are launched within the limits of a GPU", "[backends][cuda]") {
  emulation::set_running(false);
  alignas(256) static std::byte memory[256];  // for all operands, as nothing is read or written
  for (const Shape& shape : shapes()) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F64}) {
      const Kernel kernel = calibration_kernel(shape.kind, dtype, shape.dims, shape.scalars,
                                               shape.optional_inputs, shape.optional_outputs);
      INFO(info(shape.kind).name << " " << to_string(dtype) << " " << shape.dims[0]);
      REQUIRE(registry().supports(kernel));
      KernelCall call{&kernel, {}, {}, memory, {}};
      const auto address = [](const Operand& operand) {
        return operand.present() ? memory : nullptr;
      };
      std::transform(kernel.in.begin(), kernel.in.end(), call.in.begin(), address);
      std::transform(kernel.out.begin(), kernel.out.end(), call.out.begin(), address);
      Queue queue;
      registry()[shape.kind].launch(call, queue);
      const Result<void> launched = queue.status();
      CHECK((launched ? "" : launched.error().message) == "");
    }
  }
  emulation::set_running(true);
}

}  // namespace lockstep::cuda::emulated
