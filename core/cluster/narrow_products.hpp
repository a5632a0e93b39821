// Narrow products: linear layers that compute in 8 or 4 bits, for simulation. Their operands are
// made narrow by kernels of their own, which read 16 bits and write the narrow element both as it
// lies and transposed for the backward pass.
#pragma once

#include <optional>

#include "core/cluster/cluster.hpp"

namespace lockstep {

struct NarrowProducts {
  FlopsPerSecond rate;    // dense peak
  double bytes = 1;       // of an operand's element, with its part of the block's scale
  double cast_bytes = 4;  // read and written to make an element narrow
};

/// The narrowest products that the framework asks for and the device has; nullopt: 16 bits.
/// - 8 bits (Transformer Engine): a scale of the tensor itself needs its largest value first, so
///   that the tensor is read once more; a delayed scale comes from earlier steps.
/// - NVFP4 (NVIDIA 2025, Pretraining Large Language Models with NVFP4): 4 bits, 8 bits for the
/// scale
///   of 16 values, and a scale of the tensor, which is read once more.
/// - MXFP4 (OCP Microscaling Formats 1.0): 4 bits, and 8 bits for the scale of 32 values.
inline std::optional<NarrowProducts> narrow_products(const DeviceSpec& device,
                                                     const FrameworkSpec& framework) {
  constexpr double kRead = 2;
  if (framework.fp4 != Fp4Recipe::None && device.fp4_rate.v > 0) {
    const bool nvidia = framework.fp4 == Fp4Recipe::Nvfp4;
    const double bytes = nvidia ? 0.5 + 1.0 / 16 : 0.5 + 1.0 / 32;
    return NarrowProducts{device.fp4_rate, bytes, (nvidia ? 2 : 1) * kRead + 2 * bytes};
  }
  if (framework.fp8 == Fp8Recipe::None || device.fp8_rate.v <= 0) return std::nullopt;
  const bool reads_again = framework.fp8 != Fp8Recipe::Delayed;
  return NarrowProducts{device.fp8_rate, 1, (reads_again ? 2 : 1) * kRead + 2};
}

}  // namespace lockstep
