#include "core/cost/kernel_time.hpp"

#include <algorithm>
#include <cmath>

#include "core/cost/attention_time.hpp"
#include "core/cost/product_time.hpp"

namespace lockstep {
namespace {

/// The efficiency at an ideal time. It is linear in log(ideal) between the measured points, and
/// that of the nearest point outside them.
double interpolate(const std::vector<EfficiencyPoint>& points, Seconds ideal) {
  if (points.empty()) return 1.0;
  if (ideal <= points.front().ideal) return points.front().efficiency;
  if (ideal >= points.back().ideal) return points.back().efficiency;
  const auto above =
      std::upper_bound(points.begin(), points.end(), ideal,
                       [](Seconds t, const EfficiencyPoint& p) { return t < p.ideal; });
  const EfficiencyPoint& hi = *above;
  const EfficiencyPoint& lo = *(above - 1);
  const double x = std::log(ideal.v / lo.ideal.v) / std::log(hi.ideal.v / lo.ideal.v);
  return lo.efficiency + x * (hi.efficiency - lo.efficiency);
}

/// The curves of a kind of kernel and of a type on either side of a width: the widest that is not
/// wider, and the narrowest that is wider. One is null if there is none on its side, both if the
/// kind has none of the type.
struct CurvesOf {
  const EfficiencyCurve* narrow = nullptr;
  const EfficiencyCurve* wide = nullptr;

  CurvesOf(const DeviceSpec& device, std::string_view name, CurveType type, std::int64_t width) {
    for (const EfficiencyCurve& curve : device.efficiency) {
      if (curve.kernel != name || curve.dtype != type) continue;
      if (curve.width <= width) {
        if (narrow == nullptr || curve.width > narrow->width) narrow = &curve;
      } else if (wide == nullptr || curve.width < wide->width) {
        wide = &curve;
      }
    }
  }
  bool none() const { return narrow == nullptr && wide == nullptr; }
  double at(Seconds ideal, std::int64_t width) const {
    if (narrow == nullptr || wide == nullptr) {
      return interpolate((narrow == nullptr ? wide : narrow)->points, ideal);
    }
    const double low = interpolate(narrow->points, ideal), high = interpolate(wide->points, ideal);
    const auto log_of = [](std::int64_t w) {
      return std::log(static_cast<double>(std::max<std::int64_t>(w, 1)));
    };
    const double from = log_of(narrow->width);
    return low + (high - low) * (log_of(width) - from) / (log_of(wide->width) - from);
  }
};

/// The efficiency by the kernel's own curve, of its type or of all. Without one it is by the curve
/// of the kernel that the row names as equally efficient, at the same ideal time, else by the curve
/// "*"; without any curve it is 1.
double efficiency(const DeviceSpec& device, const Kernel& kernel, Seconds ideal) {
  const KernelRow& row = info(kernel.kind);
  const std::int64_t width = row.width ? row.width.elements(kernel) : 0;
  for (const std::string_view name : {row.name, row.efficiency_as, std::string_view("*")}) {
    for (const CurveType type : {curve_type(kernel.dtype), CurveType::All}) {
      const CurvesOf curves(device, name, type, width);
      if (!curves.none()) return curves.at(ideal, width);
    }
  }
  return 1;
}

Seconds roofline(const Kernel& kernel, const DeviceSpec& device) {
  const Work w = work(kernel);
  const FlopsPerSecond peak = product_rate(device, kernel);
  const Seconds compute = peak.v > 0 ? w.flops / peak : Seconds{};
  const Seconds memory =
      device.memory_bandwidth.v > 0 ? w.bytes / device.memory_bandwidth : Seconds{};
  const Seconds ideal = std::max(compute, memory);
  return Seconds{ideal.v / efficiency(device, kernel, ideal)};
}

/// The elements of the main tensor of an elementwise kernel.
double elements(const Kernel& kernel) { return static_cast<double>(output_elements(kernel, 0)); }

/// Bytes that reorder a convolution's two images, each of which is read and written: matrix units
/// compute with channels last, so cuDNN converts what lies otherwise before and after (NVIDIA,
/// Convolutional Layers User's Guide, tensor layouts).
double reordered_bytes(const Kernel& kernel, double size) {
  const bool matrix_units = kernel.tf32 || size_of(kernel.dtype) == 2;
  if (!matrix_units) return 0;
  const auto& d = kernel.dims;  // batch height width in out kernel stride
  const auto halved = [&](std::int64_t side) { return (side + d[6] - 1) / d[6]; };
  const std::int64_t wide = d[0] * d[1] * d[2] * d[3];
  const std::int64_t narrow = d[0] * halved(d[1]) * halved(d[2]) * d[4];
  return 2 * size * static_cast<double>(wide + narrow);
}

/// Bytes that the framework's kernels move and the program's do not. Each case is a term of
/// docs/cost-model.md, "What is not fused".
double bytes_besides(const Kernel& kernel, const FrameworkSpec& f) {
  const auto size = static_cast<double>(size_of(kernel.dtype));
  const auto has = [](const std::vector<Operand>& operands, std::size_t i) {
    return i < operands.size() && operands[i].present();
  };
  switch (kernel.kind) {
    case KernelKind::Gemm:
    case KernelKind::ScaledGemm: {
      const bool weight_gradient = kernel.kind == KernelKind::ScaledGemm
                                       ? kernel.dims[6] == 1
                                       : kernel.dims[3] == 1 && kernel.dims[4] == 0;
      if (weight_gradient && !f.fused_gradient_accumulation) {
        const auto gradient = static_cast<double>(size_of(kernel.out[0].dtype));
        return elements(kernel) * (2 * size + 2 * gradient);
      }
      // A kernel of its own reads the product and the residual, and writes the sum and a mask.
      const bool residual = has(kernel.in, 3);
      return residual && !f.fused_residual ? elements(kernel) * (3 * size + 1) : 0;
    }
    case KernelKind::Add:
      return f.fused_residual ? 0 : elements(kernel);
    case KernelKind::LayerNormBackwardInput:
      // This is the backward pass of the dropout in the branch whose gradient this is.
      return has(kernel.in, 4) && !f.fused_residual ? elements(kernel) * (2 * size + 1) : 0;
    case KernelKind::RmsNormForward:
    case KernelKind::HeadNormForward:
      return f.fused_norm ? 0 : elements(kernel) * (36 - 2 * size);
    case KernelKind::RmsNormBackwardInput:
    case KernelKind::HeadNormBackwardInput:
      return f.fused_norm ? 0 : elements(kernel) * (72 - 3 * size);
    case KernelKind::GeluForward:
    case KernelKind::SquaredReluForward:
    case KernelKind::SoftcapForward:
    case KernelKind::SwigluForward:
    case KernelKind::GegluForward:
    case KernelKind::GeluBackward:
    case KernelKind::SquaredReluBackward:
    case KernelKind::SoftcapBackward:
    case KernelKind::SwigluBackward:
    case KernelKind::GegluBackward:
      return f.fused_activation ? 0 : elements(kernel) * 2 * size;
    case KernelKind::RaggedActivationForward:
    case KernelKind::RaggedActivationBackward: {  // of the rows that are expected
      const bool both = kernel.kind == KernelKind::RaggedActivationBackward && kernel.dims[3] != 0;
      const auto rows = static_cast<double>(kernel.dims[1] * kernel.dims[2]);
      return f.fused_activation ? 0 : rows * (both ? 2 : 1) * 2 * size;
    }
    case KernelKind::CrossEntropy:
      // Per logit: the float32 copy moves 2 + 4 bytes, the log of the softmax 8, its gradient 4 +
      // 12, and the copy back 4 + 2.
      return f.float32_logits > 0 ? elements(kernel) * (34 + size - 2 * size) : 0;
    case KernelKind::CrossEntropyStats:
      // Per logit: the float32 copy moves 2 + 4 bytes, the largest 4, the difference 8, the
      // exponential 8, and the sum 4.
      return f.float32_logits > 0
                 ? static_cast<double>(kernel.dims[0] * kernel.dims[1]) * (28 - size + size)
                 : 0;
    case KernelKind::CrossEntropyParallel:
      // Per logit: the quotient moves 8 bytes, the gradient 8, and the copy back 4 + 2.
      return f.float32_logits > 0 ? elements(kernel) * (22 - 2 * size) : 0;
    case KernelKind::Conv2dForward:
    case KernelKind::Conv2dBackwardInput:
    case KernelKind::Conv2dBackwardWeight:
      return f.channels_last ? 0 : reordered_bytes(kernel, size);
    case KernelKind::AdamW:
    case KernelKind::Adam:
      // The two moments, the root, the quotient and the update are operations of their own, each of
      // which reads and writes float32.
      return f.fused_optimizer ? 0 : static_cast<double>(kernel.dims[0]) * 32;
    default:
      return 0;
  }
}

bool is_attention(const Kernel& kernel) {
  return kernel.kind == KernelKind::AttentionForward ||
         kernel.kind == KernelKind::AttentionBackward;
}

Seconds waits(const Kernel& kernel, const FrameworkSpec& framework) {
  if (is_attention(kernel)) return framework.layer;  // each pass of a block has one
  if (kernel.kind == KernelKind::ClipCoefficient) return framework.step;  // a step has one
  return {};
}

Seconds body_time(const Kernel& kernel, const DeviceSpec& device, const FrameworkSpec& framework) {
  if (is_attention(kernel) && framework.attention != AttentionKernel::Profile) {
    return attention_time(kernel, device, framework);
  }
  if (kernel.kind == KernelKind::Gemm || kernel.kind == KernelKind::ScaledGemm) {
    if (const auto time = product_time(kernel, device, framework)) return *time;
    const double rate = framework.matmul_rate(device.compute_capability);
    return Seconds{roofline(kernel, device).v / rate};
  }
  return roofline(kernel, device);
}

}  // namespace

FlopsPerSecond peak_rate(const DeviceSpec& device, DType dtype) {
  const PeakRate* next_wider = nullptr;
  const PeakRate* widest = nullptr;
  for (const PeakRate& peak : device.peaks) {
    if (peak.dtype == dtype) return peak.rate;
    if (size_of(peak.dtype) > size_of(dtype) &&
        (next_wider == nullptr || size_of(peak.dtype) < size_of(next_wider->dtype))) {
      next_wider = &peak;
    }
    if (widest == nullptr || size_of(peak.dtype) > size_of(widest->dtype)) widest = &peak;
  }
  if (next_wider != nullptr) return next_wider->rate;
  if (widest == nullptr) return {};
  return {widest->rate.v * static_cast<double>(size_of(widest->dtype)) /
          static_cast<double>(size_of(dtype))};
}

FlopsPerSecond product_rate(const DeviceSpec& device, const Kernel& kernel) {
  if (kernel.tf32 && device.tf32_rate.v > 0) return device.tf32_rate;
  // Without units for them, codes are widened to the kernel's own type.
  const bool codes = kernel.kind == KernelKind::ScaledGemm ||
                     kernel.kind == KernelKind::RaggedScaledGemm ||
                     kernel.kind == KernelKind::RaggedScaledGemmWeight;
  if (codes && device.fp8_rate.v > 0) return device.fp8_rate;
  return peak_rate(device, kernel.dtype);
}

BytesPerSecond copy_rate(const DeviceSpec& device) {
  const EfficiencyCurve* curve = CurvesOf(device, "*", CurveType::All, 0).narrow;
  const bool none = curve == nullptr || curve->points.empty();
  return {device.memory_bandwidth.v * (none ? 1.0 : curve->points.back().efficiency)};
}

Seconds kernel_time(const Kernel& kernel, const DeviceSpec& device,
                    const FrameworkSpec& framework) {
  if (kernel.kind == KernelKind::Delay) return {kernel.scalars[0]};
  const double besides = bytes_besides(kernel, framework);
  const Seconds extra{besides > 0 ? besides / copy_rate(device).v : 0};
  return device.launch_overhead + body_time(kernel, device, framework) + extra +
         waits(kernel, framework);
}

Seconds function_time(const Function& function, const DeviceSpec& device,
                      const FrameworkSpec& framework) {
  FrameworkSpec ways = framework;
  // The output layer computes in 16 bits, and so does what makes an update orthogonal.
  const FunctionName::Kind kind = function.name.kind();
  if (kind == FunctionName::Kind::OutputLayer || kind == FunctionName::Kind::Orthogonalize) {
    ways.fp8 = Fp8Recipe::None;
    ways.fp4 = Fp4Recipe::None;
  }
  Seconds total;
  for (const Kernel& kernel : function.kernels) total += kernel_time(kernel, device, ways);
  if (!framework.launch_blocking) return total;
  return total + static_cast<double>(function.kernels.size()) * framework.host_kernel;
}

DeviceSpec host_of(const DeviceSpec& device) {
  if (!(device.host_memory_bandwidth.v > 0)) return device;
  DeviceSpec host;
  host.name = device.name + "'s host";
  host.memory_bandwidth = device.host_memory_bandwidth;
  return host;
}

}  // namespace lockstep
