#include "backends/cpu/kernels/kernels.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/widened_operands.hpp"
#include "core/base/bfloat16.hpp"
#include "core/base/random_rounding.hpp"

namespace lockstep::cpu {
namespace {

static_assert(kNumKernelKinds <= 96);
static_assert(kMaxOperands <= 8);

bool is_real(DType t) {
  return t == DType::F32 || t == DType::F64 || t == DType::BF16 || t == DType::F16;
}

KernelFunction function_of(const KernelTable& table, const Kernel& kernel) {
  return (kernel.dtype == DType::F64 ? table.f64 : table.f32)[static_cast<int>(kernel.kind)];
}

/// Whether KernelTable::gemm_bf16 computes it, or all products of which it consists. Sums that go
/// on over several products are kept in float32.
bool is_bf16_gemm(const Kernel& kernel) {
  const bool whole = kernel.kind == KernelKind::Gemm || kernel.kind == KernelKind::GroupedGemm;
  const bool of_weights = kernel.kind == KernelKind::GroupedGemmWeight;
  if (!whole && !of_weights) return false;
  if (of_weights) {
    const bool goes_on = kernel.dims[1] > 1 && kernel.out[0].dtype != DType::F32;
    if (goes_on || (kernel.out.size() > 1 && kernel.out[1].present())) return false;
  }
  const auto fits = [](const Operand& x) {
    return !x.present() || x.dtype == DType::BF16 || x.dtype == DType::F32;
  };
  return kernel.in[0].dtype == DType::BF16 && kernel.in[1].dtype == DType::BF16 &&
         std::all_of(kernel.in.begin(), kernel.in.end(), fits) && fits(kernel.out[0]);
}

/// The products of GroupedGemm or GroupedGemmWeight, one after the other
/// (core/ir/kernels/experts.cpp).
void run_grouped(KernelFunction gemm, const Kernel& kernel, const KernelArgs& all) {
  const bool of_weights = kernel.kind == KernelKind::GroupedGemmWeight;
  const auto& d = kernel.dims;
  const std::int64_t groups = d[0], parts = groups * d[1];
  const std::array<std::int64_t, 5> dims =
      of_weights ? std::array<std::int64_t, 5>{d[3], d[4], d[2], 1, 0}
                 : std::array<std::int64_t, 5>{d[2], d[3], d[4], 0, d[5] != 0 ? 1 : 0};
  const auto [m, n, k, ta, tb] = dims;
  const auto in = [&](std::size_t i, std::int64_t element) {
    return all.in[i] == nullptr ? nullptr : all.in[i] + element * size_of(kernel.in[i].dtype);
  };
  KernelArgs one = all;
  one.dims = dims.data();
  one.in[3] = nullptr;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t group = part % groups;
    one.in[0] = in(0, part * m * k);
    one.in[1] = in(1, (of_weights ? part : group) * k * n);
    one.in[2] = of_weights ? nullptr : in(2, group * n);
    one.out[0] = all.out[0] + (of_weights ? group : part) * m * n * size_of(kernel.out[0].dtype);
    one.accumulate = all.accumulate || (of_weights && part >= groups);
    gemm(one);
  }
}

}  // namespace

const KernelTables& kernel_tables() {
  static const KernelTables all = [] {
    KernelTables found;
    found.tables[found.count++] = baseline_table();
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
      found.tables[found.count++] = v3_table();
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      found.tables[found.count++] = v4_table();
      if (const KernelFunction gemm = bf16_tile_gemm()) {
        KernelTable& table = found.tables[found.count++] = v4_table();
        table.isa = "x86-64-v4-amx";
        table.gemm_bf16 = gemm;
      }
    }
#endif
    return found;
  }();
  return all;
}

void parallel_ranges(ThreadTeam& team, std::int64_t n, std::int64_t grain,
                     void (*body)(const void*, std::int64_t, std::int64_t), const void* context) {
  team.parallel_for(n, grain,
                    [=](std::int64_t begin, std::int64_t end) { body(context, begin, end); });
}

void* scratch(Scratch slot, std::size_t bytes) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    std::size_t bytes = 0;
  };
  thread_local Block blocks[static_cast<int>(Scratch::Operands) + kScratchOperands];
  Block& block = blocks[static_cast<int>(slot)];
  if (bytes > block.bytes || !block.memory) {
    const std::size_t rounded = (bytes / 4096 + 1) * 4096;
    block.memory.reset();  // freed first, because the old contents are not needed
    block.memory.reset(std::aligned_alloc(4096, rounded));
    if (!block.memory) throw std::bad_alloc();
    block.bytes = rounded;
  }
  return block.memory.get();
}

std::string_view cpu_isa() { return kernel_tables().best().isa; }

bool supports(const Kernel& kernel) {
  if (kernel.kind == KernelKind::Delay) return true;
  return is_real(kernel.dtype) && types_fit(kernel) &&
         function_of(kernel_tables().best(), kernel) != nullptr;
}

namespace {

/// Rounds AdamW's new weights, which are still float32, to bfloat16. The operands in memory still
/// hold the old values.
template <class Address>
void round_at_random(const Kernel& kernel, const Address& address, const KernelArgs& args,
                     const StepContext& context, ThreadTeam& team) {
  const std::uint64_t key = rounding_key(context.seed, context.step);
  auto* const weights = reinterpret_cast<float*>(args.out[0]);
  const auto* const gradients = reinterpret_cast<const float*>(args.in[0]);
  const std::byte* const old[] = {address(kernel.out[0]), address(kernel.out[1]),
                                  address(kernel.out[2])};
  const auto value = [&](int which, std::int64_t i) {
    bfloat16 x;
    std::memcpy(&x, old[which] + i * std::int64_t{sizeof x}, sizeof x);
    return static_cast<float>(x);
  };
  team.parallel_for(
      kernel.dims[0], std::int64_t{1} << 14, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          weights[i] = rounded_at_random(
              weights[i], rounding_bits(key, value(0, i), value(1, i), value(2, i), gradients[i]));
        }
      });
}

}  // namespace

void run_kernel(const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context, ThreadTeam& team) {
  run_kernel(kernel_tables().best(), kernel, buffers, context, team);
}

void run_kernel(const KernelTable& table, const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context, ThreadTeam& team) {
  if (kernel.kind == KernelKind::Delay) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kernel.scalars[0]));
    return;
  }
  const auto address = [&](const Operand& operand) -> std::byte* {
    if (!operand.present()) return nullptr;
    assert(static_cast<std::size_t>(operand.formal) < buffers.size());
    return buffers[static_cast<std::size_t>(operand.formal)] + operand.offset;
  };
  KernelArgs args;
  args.dims = kernel.dims.data();
  args.scalars = kernel.scalars.data();
  assert(kernel.in.size() <= kMaxOperands && kernel.out.size() <= kMaxOperands);
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    args.in[i] = address(kernel.in[i]);
    args.in_f64[i] = kernel.in[i].dtype == DType::F64;
    args.in_bf16[i] = kernel.in[i].dtype == DType::BF16;
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    args.out[i] = address(kernel.out[i]);
    args.out_f64[i] = kernel.out[i].dtype == DType::F64;
    args.out_bf16[i] = kernel.out[i].dtype == DType::BF16;
  }
  args.accumulate = kernel.accumulate;
  args.lr = context.lr;
  args.step = context.step;
  args.layer = context.layer;
  args.team = &team;
  if (table.gemm_bf16 != nullptr && is_bf16_gemm(kernel)) {
    return kernel.kind == KernelKind::Gemm ? table.gemm_bf16(args)
                                           : run_grouped(table.gemm_bf16, kernel, args);
  }
  const WidenedOperands widened(kernel, args, team);
  function_of(table, kernel)(args);
  if (kernel.stochastic) round_at_random(kernel, address, args, context, team);
  widened.store();
}

}  // namespace lockstep::cpu
