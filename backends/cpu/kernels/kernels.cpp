#include "backends/cpu/kernels/kernels.hpp"

#include <cassert>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "backends/cpu/kernels/bf16_kernels.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/widened_operands.hpp"
#include "core/base/bfloat16.hpp"
#include "core/base/huge_pages.hpp"
#include "core/base/random_rounding.hpp"

namespace lockstep::cpu {
namespace {

static_assert(kNumKernelKinds <= 128);
static_assert(kMaxOperands <= 8);

bool is_real(DType t) {
  return t == DType::F32 || t == DType::F64 || t == DType::BF16 || t == DType::F16;
}

KernelFunction function_of(const KernelTable& table, const Kernel& kernel) {
  return (kernel.dtype == DType::F64 ? table.f64 : table.f32)[static_cast<int>(kernel.kind)];
}

}  // namespace

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
    const std::size_t page = bytes > kHugePage / 4 ? kHugePage : 4096;
    const std::size_t rounded = (bytes / page + 1) * page;
    block.memory.reset();  // freed first, because the old contents are not needed
    block.memory.reset(std::aligned_alloc(page, rounded));
    if (!block.memory) throw std::bad_alloc();
    advise_huge_pages(block.memory.get(), rounded);
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
  if (run_in_bf16(table.bf16, kernel, args)) return;
  const WidenedOperands widened(kernel, args, team);
  function_of(table, kernel)(args);
  if (kernel.stochastic) round_at_random(kernel, address, args, context, team);
  widened.store();
}

}  // namespace lockstep::cpu
