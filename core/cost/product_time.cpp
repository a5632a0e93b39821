#include "core/cost/product_time.hpp"

#include <algorithm>
#include <array>

#include "core/cluster/narrow_products.hpp"
#include "core/cost/kernel_time.hpp"

namespace lockstep {
namespace {

/// A block of the result that one unit computes, and the part of the unit's peak that it reaches.
/// Smaller tiles reach less, because they load more operands per product.
struct Tile {
  double rows, columns, rate;
};
constexpr std::array<Tile, 5> kTiles = {
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.93}, {128, 64, 0.8}, {64, 64, 0.62}}};
/// What a tile of 256 × 128 takes beside its products, because the first operands come from memory
/// and the result goes there. It is as long on a faster card, where it weighs more.
constexpr double kTileSeconds = 6e-6;

double ceiling(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) < value ? static_cast<double>(whole + 1)
                                            : static_cast<double>(whole);
}

/// The part of the peak that the alignment of the operands allows. It depends on the dimensions
/// along which operands are contiguous: 16 bytes are loaded at a time if these are multiples of 8
/// (of 4 in TF32), and fewer if they are multiples of a half or a quarter of it only (NVIDIA,
/// Matrix Multiplication Background User's Guide). That 8 does not divide GPT-2's vocabulary costs
/// nanoGPT's 124M a fifth of the step, its author found.
double alignment_rate(const Kernel& kernel) {
  const std::int64_t m = kernel.dims[0], n = kernel.dims[1], k = kernel.dims[2];
  const bool codes = kernel.kind == KernelKind::ScaledGemm;
  const std::int64_t a = !codes && kernel.dims[3] != 0 ? m : k;
  const std::int64_t b = codes || kernel.dims[4] != 0 ? k : n;
  const std::int64_t whole = 16 / (codes ? 1 : size_of(kernel.dtype));
  std::int64_t worst = whole;
  for (const std::int64_t contiguous : {a, b, n}) {
    std::int64_t aligned = whole;
    while (contiguous % aligned != 0) aligned /= 2;
    worst = std::min(worst, aligned);
  }
  return worst == whole ? 1.0 : 2 * worst == whole ? 0.75 : 4 * worst == whole ? 0.5 : 0.35;
}

/// The elements that are made narrow for a product. Weights are cast only once a step. What a
/// product makes anew is cast once for the two products that read it.
double narrowed_elements(const Kernel& kernel) {
  const auto m = static_cast<double>(kernel.dims[0]), n = static_cast<double>(kernel.dims[1]),
             k = static_cast<double>(kernel.dims[2]);
  const bool weights = kernel.dims[3] == 0;  // true: they are read; false: a gradient is made
  return weights ? m * k : 0.5 * (m * k + k * n);
}

}  // namespace

std::optional<Seconds> product_time(const Kernel& kernel, const DeviceSpec& device,
                                    const FrameworkSpec& framework) {
  const bool tf32 = kernel.tf32 && device.tf32_rate.v > 0;
  const bool codes = kernel.kind == KernelKind::ScaledGemm && device.fp8_rate.v > 0;
  if (device.compute_units == 0 || (size_of(kernel.dtype) != 2 && !tf32 && !codes)) {
    return std::nullopt;
  }
  const auto m = static_cast<double>(kernel.dims[0]), n = static_cast<double>(kernel.dims[1]),
             k = static_cast<double>(kernel.dims[2]);
  const double units = device.compute_units;
  // The part of their peak that products in 8 bits reach, compared with those in bfloat16: on an
  // H100 1402.6 of 1979 TFLOP/s, where bfloat16 reaches 794.5 of 989 (stas00/ml-engineering,
  // achievable matmul FLOPS). No public table has 4 bits beside 16, which are taken to reach as
  // much.
  constexpr double kNarrowPart = 0.88;
  const auto narrow = size_of(kernel.dtype) == 2 && kernel.kind == KernelKind::Gemm
                          ? narrow_products(device, framework)
                          : std::nullopt;
  const double peak = narrow ? narrow->rate.v * kNarrowPart
                             : product_rate(device, kernel).v * (codes ? kNarrowPart : 1);
  const double unit_rate = peak / units * device.matmul_efficiency *
                           framework.matmul_rate(device.compute_capability) *
                           alignment_rate(kernel);
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double tiles = ceiling(m / tile.rows) * ceiling(n / tile.columns);
    for (double parts = 1; parts <= 8; parts *= 2) {  // parts of the sum (split-K)
      const double waves = ceiling(tiles * parts / units);
      const double area = tile.rows * tile.columns;
      const double products = 2 * area * k / parts / (unit_rate * tile.rate);
      double time = waves * (products + kTileSeconds * area / (256 * 128));
      if (parts > 1) time += m * n * 4 * (parts + 1) / copy_rate(device).v;
      if (best == 0 || time < best) best = time;
    }
  }
  const double moved = static_cast<double>(work(kernel).bytes.v) / copy_rate(device).v;
  const double cast =
      narrow ? narrowed_elements(kernel) * narrow->cast_bytes / copy_rate(device).v : 0;
  return Seconds{std::max(best, moved) + cast};
}

}  // namespace lockstep
