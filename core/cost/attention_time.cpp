#include "core/cost/attention_time.hpp"

#include <algorithm>

#include "core/cost/kernel_time.hpp"

namespace lockstep {
namespace {

struct Shape {
  double batch, queries, keys, heads, head_dim, size;
  double seen;  // twice the keys that a query sees; all keys without documents
  double scores() const { return batch * heads * queries * keys; }
};

Shape shape_of(const Kernel& kernel) {
  const auto dim = [&](std::size_t i) { return static_cast<double>(kernel.dims[i]); };
  const double parts = std::max(1.0, dim(5));
  const double keys = dim(1) * parts;
  // The queries that see keys of another rank at all, which are few, see a long stretch of them.
  const bool in_documents = dim(6) > 0 && !kernel.accumulate;
  return {dim(0),
          dim(1),
          keys,
          dim(2),
          dim(4),
          static_cast<double>(size_of(kernel.dtype)),
          in_documents ? std::min(keys, 2 * dim(6) / dim(1)) : keys * (1 + dim(7))};
}

double up_to_multiple(double value, double of) {
  const auto units = static_cast<std::int64_t>((value + of - 1) / of);
  return static_cast<double>(units) * of;
}

/// The time of one batched product of unfused attention, which computes all scores, those above the
/// diagonal too. Heads are padded to the 32 elements that a tile takes at a time. Heads that are no
/// multiple of 8 (16 bytes) do not get matrix units, because batched products of cuBLAS 11 then run
/// at the rate of float32 (BLOOM's tuning: heads of 108 and 144).
double product_seconds(const Shape& shape, const DeviceSpec& device, DType dtype) {
  // The part of the peak. Beside products with weights, the passes that Qi et al. 2023 and
  // Korthikanti et al. 2022 measured leave 0.1 to 0.25, runs with twice the keys 0.6.
  constexpr double kBatchedPart = 0.4;
  const bool aligned = static_cast<std::int64_t>(shape.head_dim) % 8 == 0;
  const double flops = 2 * shape.scores() * up_to_multiple(shape.head_dim, 32);
  const double compute = flops / (peak_rate(device, aligned ? dtype : DType::F32).v * kBatchedPart);
  const double moved = shape.scores() * shape.size / copy_rate(device).v;
  return std::max(compute, moved);
}

/// Bytes per score that the kernels between the products move. A fused softmax (Megatron-LM's
/// scaled_upper_triang_masked_softmax) reads and writes a score; its backward pass reads two and
/// writes one. If it is not fused, the mask also reads and writes the score, and reads a byte of
/// its own. Dropout reads and writes the score and moves a byte of mask, in each pass.
double bytes_between(const FrameworkSpec& framework, double size, bool drops, bool backward) {
  double bytes = (backward ? 3 : 2) * size;
  if (!framework.fused_softmax) bytes += 2 * size + 1;
  if (drops) bytes += 2 * size + 1;
  return bytes;
}

Seconds unfused_time(const Kernel& kernel, const Shape& shape, const DeviceSpec& device,
                     const FrameworkSpec& framework, bool drops, bool backward) {
  const double products = (backward ? 4 : 2) * product_seconds(shape, device, kernel.dtype);
  const double between =
      shape.scores() * bytes_between(framework, shape.size, drops, backward) / copy_rate(device).v;
  return {products + between};
}

/// The smallest head that kernels are compiled for and that `head_dim` fits into.
double compiled_head(double head_dim) {
  for (const double compiled : {32.0, 64.0, 96.0, 128.0, 160.0, 192.0, 224.0}) {
    if (head_dim <= compiled) return compiled;
  }
  return std::max(256.0, head_dim);
}

}  // namespace

namespace {
/// Kernels written for Ampere's instructions are no faster on Blackwell than on Hopper, so they
/// reach a smaller part of Blackwell's peak, by the ratio of the two peaks in TFLOP/s.
constexpr double kHopperOverBlackwell = 989.4 / 2250;
}  // namespace

double flash_fraction(AttentionKernel implementation, double compute_capability, bool backward) {
  const bool hopper = compute_capability >= 9;
  const bool own = implementation == AttentionKernel::Cudnn;
  if (compute_capability >= 10 && !own) {
    return kHopperOverBlackwell * flash_fraction(implementation, 9, backward);
  }
  switch (implementation) {
    case AttentionKernel::Flash1:
      return hopper ? (backward ? 0.18 : 0.23) : (backward ? 0.3 : 0.4);
    case AttentionKernel::Triton:
      return hopper ? (backward ? 0.2 : 0.22) : (backward ? 0.33 : 0.35);
    case AttentionKernel::Flash3:
      if (hopper) return backward ? 0.55 : 0.65;
      break;
    case AttentionKernel::Cudnn:
      if (hopper) return backward ? 0.53 : 0.56;
      break;
    default:
      break;
  }
  // This is FlashAttention 2, which also stands for Flash3 and Cudnn before Hopper.
  return hopper ? (backward ? 0.33 : 0.37) : (backward ? 0.6 : 0.68);
}

Seconds attention_time(const Kernel& kernel, const DeviceSpec& device,
                       const FrameworkSpec& framework) {
  const Shape shape = shape_of(kernel);
  const bool backward = kernel.kind == KernelKind::AttentionBackward;
  const bool drops = framework.attention_dropout || kernel.scalars[0] > 0;
  const Work w = work(kernel);
  const Seconds moved{static_cast<double>(w.bytes.v) / copy_rate(device).v};
  const double peak = peak_rate(device, kernel.dtype).v;
  if (framework.attention == AttentionKernel::Unfused) {
    return unfused_time(kernel, shape, device, framework, drops, backward);
  }
  if (!(peak > 0)) return moved;
  // Half of the speed is reached with this many keys. Shah et al. 2024, causal forward on an H100:
  // 315 TFLOP/s at 512 keys, 539 at 16 Ki.
  constexpr double kHalfSpeedKeys = 300;
  const double head = compiled_head(shape.head_dim);
  const double short_head = head < 96 ? 0.85 : 1.0;  // Dao 2023: heads of 64 against 128
  // With dropout the tiles of wide heads are halved, and random numbers are drawn (flash-attn,
  // csrc). The factor is fitted to vocabpp.
  constexpr double kDropoutPart = 0.45;
  const double fraction = (drops ? kDropoutPart : 1.0) *
                          flash_fraction(framework.attention, device.compute_capability, backward) *
                          short_head * (shape.head_dim / head) *
                          (shape.seen / (shape.seen + kHalfSpeedKeys));
  return std::max(moved, Seconds{w.flops.v / (peak * fraction)});
}

}  // namespace lockstep
