// Measures GEMM and the other kernels at GPT-2 124M's shapes on one thread, and the rate of a plain
// loop of fused multiply-adds on the same core. The argument is the number of tokens.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/kernels.hpp"
#include "core/base/huge_pages.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep::cpu {
namespace {

void count_rate(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}

void fused_multiply_adds(benchmark::State& state) {
  const KernelTable& table = kernel_tables().best();
  constexpr std::int64_t kRounds = 10'000'000;
  for (auto _ : state) benchmark::DoNotOptimize(table.fma_rounds_f32(kRounds));
  count_rate(state, static_cast<double>(kRounds * table.fma_flops_per_round_f32));
  state.SetLabel(table.isa);
}
BENCHMARK(fused_multiply_adds)->Unit(benchmark::kMillisecond);

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<float, Free>;

/// `elements` of value `value`, which begin at a page of their own, in huge pages, as those of a
/// step in its arena do: vectors that lie across lines of the cache take a sixth longer.
Memory filled(std::int64_t elements, float value) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
  const std::size_t rounded = (bytes / kHugePage + 1) * kHugePage;
  Memory memory(static_cast<float*>(std::aligned_alloc(kHugePage, rounded)));
  if (!memory) throw std::bad_alloc();
  advise_huge_pages(memory.get(), rounded);
  std::fill_n(memory.get(), elements, value);
  return memory;
}

/// Runs `kernel` with operands of its own, whose values are all 0.5, and integers `index`. Inputs
/// from `absent_from` up to the last one are absent.
void run(benchmark::State& state, Kernel kernel, std::size_t absent_from = 100,
         std::int32_t index = 0) {
  std::vector<Memory> memory;
  const auto bind = [&](Operand& operand, std::int64_t elements) {
    operand.formal = static_cast<std::int16_t>(memory.size());
    memory.push_back(filled(elements,  // of bfloat16, half of it is used
                            operand.dtype == DType::I32 ? std::bit_cast<float>(index) : 0.5f));
  };
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (i >= absent_from && i + 1 < kernel.in.size()) continue;
    kernel.in[i].formal = 0;  // present: only then has it a size
    bind(kernel.in[i], input_elements(kernel, i));
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    kernel.out[i].formal = 0;
    bind(kernel.out[i], output_elements(kernel, i));
  }
  std::vector<std::byte*> buffers;
  for (auto& block : memory) buffers.push_back(reinterpret_cast<std::byte*>(block.get()));
  ThreadTeam team(1);
  for (auto _ : state) run_kernel(kernel, buffers, {1, 1e-4}, team);
  const Work w = work(kernel);
  count_rate(state, w.flops.v);
  state.SetBytesProcessed(w.bytes.v * state.iterations());
}

/// The linears of a block and the logits: forward (NT), input gradient (NN), weight gradient (TN).
template <DType kType>
void gemm_of(benchmark::State& state, std::int64_t out, std::int64_t in, int pass) {
  const std::int64_t tokens = state.range(0);
  Kernel kernel;
  kernel.kind = KernelKind::Gemm;
  if (pass == 0) kernel.dims = {tokens, out, in, 0, 1};
  if (pass == 1) kernel.dims = {tokens, in, out, 0, 0};
  if (pass == 2) kernel.dims = {out, in, tokens, 1, 0};
  kernel.accumulate = pass == 2;
  kernel.dtype = kType;
  kernel.in.assign(2, Operand{-1, kType, 0});
  kernel.out.assign(1, Operand{-1, pass == 2 ? DType::F32 : kType, 0});
  run(state, kernel);
}
constexpr auto gemm = gemm_of<DType::F32>, gemm_bf16 = gemm_of<DType::BF16>;
#define LOCKSTEP_GEMM_BENCH(name, out, in)                                              \
  BENCHMARK_CAPTURE(gemm, name##_forward, out, in, 0)->Arg(256)->Arg(1024);             \
  BENCHMARK_CAPTURE(gemm, name##_input_gradient, out, in, 1)->Arg(256)->Arg(1024);      \
  BENCHMARK_CAPTURE(gemm, name##_weight_gradient, out, in, 2)->Arg(256)->Arg(1024);     \
  BENCHMARK_CAPTURE(gemm_bf16, name##_forward, out, in, 0)->Arg(256)->Arg(1024);        \
  BENCHMARK_CAPTURE(gemm_bf16, name##_input_gradient, out, in, 1)->Arg(256)->Arg(1024); \
  BENCHMARK_CAPTURE(gemm_bf16, name##_weight_gradient, out, in, 2)->Arg(256)->Arg(1024)
LOCKSTEP_GEMM_BENCH(qkv, 2304, 768);
LOCKSTEP_GEMM_BENCH(proj, 768, 768);
LOCKSTEP_GEMM_BENCH(fc, 3072, 768);
LOCKSTEP_GEMM_BENCH(fcproj, 768, 3072);
LOCKSTEP_GEMM_BENCH(logits, 50257, 768);

void kernel_of(benchmark::State& state, KernelKind kind, decltype(Kernel::dims) dims,
               decltype(Kernel::scalars) scalars, std::size_t inputs, std::size_t outputs) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dims = dims;
  kernel.scalars = scalars;
  kernel.in.resize(inputs);
  kernel.out.resize(outputs);
  if (kind == KernelKind::CrossEntropy) kernel.in[1].dtype = DType::I32;
  run(state, kernel);
}
using K = KernelKind;
BENCHMARK_CAPTURE(kernel_of, layer_norm, K::LayerNormForward, {1024, 768}, {1e-5}, 3, 2);
BENCHMARK_CAPTURE(kernel_of, layer_norm_input, K::LayerNormBackwardInput, {1024, 768}, {}, 5, 1);
BENCHMARK_CAPTURE(kernel_of, layer_norm_weight, K::LayerNormBackwardWeight, {1024, 768}, {}, 3, 2);
BENCHMARK_CAPTURE(kernel_of, column_sum, K::ColumnSum, {1024, 3072}, {}, 1, 1);
BENCHMARK_CAPTURE(kernel_of, gelu, K::GeluForward, {1024 * 3072}, {}, 1, 1);
BENCHMARK_CAPTURE(kernel_of, gelu_backward, K::GeluBackward, {1024 * 3072}, {}, 2, 1);
BENCHMARK_CAPTURE(kernel_of, swiglu, K::SwigluForward, {1024, 3072}, {}, 1, 1);
BENCHMARK_CAPTURE(kernel_of, attention, K::AttentionForward, {1, 1024, 12, 12, 64}, {}, 1, 2);
BENCHMARK_CAPTURE(kernel_of, attention_backward, K::AttentionBackward, {1, 1024, 12, 12, 64}, {}, 4,
                  1);
/// Attention of bfloat16.
void attention_bf16(benchmark::State& state, KernelKind kind) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = DType::BF16;
  kernel.dims = {1, 1024, 12, 12, 64};
  kernel.in.assign(kind == K::AttentionForward ? 1 : 4, Operand{-1, DType::BF16, 0});
  kernel.out.assign(kind == K::AttentionForward ? 2 : 1, Operand{-1, DType::BF16, 0});
  (kind == K::AttentionForward ? kernel.out[1] : kernel.in[2]).dtype = DType::F32;
  run(state, kernel);
}
BENCHMARK_CAPTURE(attention_bf16, forward, K::AttentionForward);
BENCHMARK_CAPTURE(attention_bf16, backward, K::AttentionBackward);
/// Attention that drops a tenth of its probabilities.
void dropping(benchmark::State& state, KernelKind kind) {
  const std::size_t inputs = info(kind).in.size();  // the last of which is what it draws from
  Kernel kernel;
  kernel.kind = kind;
  kernel.dims = {1, 1024, 12, 12, 64};
  kernel.scalars = {0.1};
  kernel.in.resize(inputs);
  kernel.in.back().dtype = DType::I32;
  kernel.out.resize(info(kind).out.size());
  run(state, kernel, inputs - 4);
}
BENCHMARK_CAPTURE(dropping, attention, K::AttentionForward);
BENCHMARK_CAPTURE(dropping, attention_backward, K::AttentionBackward);
/// The products of eight experts: up (NT), and the gradient of their weights (TN).
void experts(benchmark::State& state, K kind, DType type) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = type;
  const bool of_weights = kind == K::GroupedGemmWeight;
  if (of_weights) {
    kernel.dims = {8, 1, 256, 3072, 768};
  } else {
    kernel.dims = {8, 1, 256, 3072, 768, 1};
  }
  kernel.in.assign(2, Operand{-1, type, 0});
  kernel.out.assign(1, Operand{-1, of_weights ? DType::F32 : type, 0});
  run(state, kernel);
}
/// The same of experts whose rows are counted: 256 each.
void counted_experts(benchmark::State& state, K kind, DType type) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = type;
  const bool of_weights = kind == K::RaggedGemmWeight;
  if (of_weights) {
    kernel.dims = {8, 1, 2048, 2048, 3072, 768, 1};
  } else {
    kernel.dims = {8, 1, 2048, 2048, 3072, 768, 1, 1};
  }
  kernel.in.assign(of_weights ? 3 : 4, Operand{-1, type, 0});
  kernel.in.back().dtype = DType::I32;
  kernel.out.assign(1, Operand{-1, of_weights ? DType::F32 : type, 0});
  run(state, kernel, 2, 256);
}
BENCHMARK_CAPTURE(counted_experts, up_f32, K::RaggedGemm, DType::F32);
BENCHMARK_CAPTURE(counted_experts, up_bf16, K::RaggedGemm, DType::BF16);
BENCHMARK_CAPTURE(counted_experts, weight_gradient_f32, K::RaggedGemmWeight, DType::F32);
BENCHMARK_CAPTURE(counted_experts, weight_gradient_bf16, K::RaggedGemmWeight, DType::BF16);
BENCHMARK_CAPTURE(experts, up_f32, K::GroupedGemm, DType::F32);
BENCHMARK_CAPTURE(experts, up_bf16, K::GroupedGemm, DType::BF16);
BENCHMARK_CAPTURE(experts, weight_gradient_f32, K::GroupedGemmWeight, DType::F32);
BENCHMARK_CAPTURE(experts, weight_gradient_bf16, K::GroupedGemmWeight, DType::BF16);

BENCHMARK_CAPTURE(kernel_of, cross_entropy, K::CrossEntropy, {256, 50257}, {1.0}, 2, 2);
BENCHMARK_CAPTURE(kernel_of, adamw, K::AdamW, {30'000'000}, {0.9, 0.95, 1e-8, 0.1}, 2, 3);
BENCHMARK_CAPTURE(kernel_of, norm_squared, K::NormSquared, {30'000'000, 16}, {}, 1, 1);

}  // namespace
}  // namespace lockstep::cpu

BENCHMARK_MAIN();
