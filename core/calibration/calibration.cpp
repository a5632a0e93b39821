#include "core/calibration/calibration.hpp"

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

struct Shape {
  KernelKind kind;
  std::vector<std::int64_t> dims;
  std::vector<double> scalars = {};
  int optional_inputs = 0, optional_outputs = 0;
};

/// Kernels of a transformer layer `width` wide on `tokens` tokens.
std::vector<Shape> transformer_layer(std::int64_t tokens, std::int64_t width) {
  using K = KernelKind;
  const std::int64_t seq = std::min<std::int64_t>(tokens, 1024), batch = tokens / seq;
  const std::int64_t head_dim = std::min<std::int64_t>(width, 64), heads = width / head_dim;
  const std::int64_t vocab = 64 * width + 256;
  const std::int64_t narrow = head_dim / 4;  // as small models have it
  const std::int64_t weights = 12 * width * width;
  const std::vector<std::int64_t> matrix = {weights, 0, 1, weights / width, weights, 0, 1};
  const std::int64_t expert_rows = std::max<std::int64_t>(tokens / 4, 1);  // two of eight experts
  return {
      {K::Gemm, {tokens, 4 * width, width, 0, 1}, {}, 1},
      {K::Gemm, {tokens, width, 4 * width, 0, 0}},
      {K::Gemm, {4 * width, width, tokens, 1, 0}},
      {K::Quantize, {tokens, width, 0, 1, 128}, {3}, 0, 1},
      {K::ScaledGemm, {tokens, 4 * width, width, 1, 128, 128}, {3, 3}, 1},
      {K::ColumnSum, {tokens, 4 * width}},
      {K::AttentionForward, {batch, seq, heads, heads, head_dim}},
      {K::AttentionForward, {batch, seq, 4 * heads, 4 * heads, narrow}},
      {K::AttentionBackward, {batch, seq, heads, heads, head_dim}},
      {K::AttentionBackward, {batch, seq, 4 * heads, 4 * heads, narrow}},
      {K::LayerNormForward, {tokens, width}, {1e-5}},
      {K::LayerNormBackwardInput, {tokens, width}, {}, 1},
      {K::LayerNormBackwardWeight, {tokens, width}},
      {K::RmsNormForward, {tokens, width}, {1e-5}},
      {K::RmsNormBackwardInput, {tokens, width}, {}, 1},
      {K::RmsNormBackwardWeight, {tokens, width}},
      {K::HeadNormForward, {tokens, heads, heads, head_dim}, {1e-5}},
      {K::HeadNormBackwardInput, {tokens, heads, heads, head_dim}},
      {K::HeadNormBackwardWeight, {tokens, heads, heads, head_dim}},
      {K::GeluForward, {tokens * 4 * width}},
      {K::GeluBackward, {tokens * 4 * width}},
      {K::SquaredReluForward, {tokens * 4 * width}},
      {K::SquaredReluBackward, {tokens * 4 * width}},
      {K::SoftcapForward, {tokens * 4 * width}, {30.0}},
      {K::SoftcapBackward, {tokens * 4 * width}, {30.0}},
      {K::SwigluForward, {tokens, 2 * width}},
      {K::SwigluBackward, {tokens, 2 * width}},
      {K::GegluForward, {tokens, 2 * width}},
      {K::GegluBackward, {tokens, 2 * width}},
      {K::Rope, {batch, seq, heads, head_dim, 3 * heads, 0}, {10000.0}},
      {K::EmbeddingForward, {tokens, width, seq, vocab}, {}, 1},
      {K::EmbeddingBackward, {tokens, width, seq, vocab}, {}, 0, 1},
      {K::CrossEntropy, {tokens, vocab}, {1.0}},
      {K::CrossEntropyStats, {tokens, vocab / 8}},
      {K::CrossEntropyParallel, {tokens, vocab / 8, 8}, {1.0}},
      {K::GroupedGemm, {4, 2, expert_rows, 4 * width, width, 1}},
      {K::GroupedGemm, {4, 2, expert_rows, width, 4 * width, 0}},
      {K::GroupedGemmWeight, {4, 2, expert_rows, 4 * width, width}},
      {K::RouteForward, {tokens, 8, 2, expert_rows}},
      {K::RouteBackward, {tokens, 8, 2, expert_rows}, {0.0}},
      {K::RouteLoad, {tokens, 8, 2, expert_rows}},
      {K::RouterBias, {256}, {0.001}},
      {K::RouteBalance, {tokens, 8}, {0.0}},
      {K::CombineForward, {tokens, width, 2, 8 * expert_rows}, {}, 1},
      {K::CombineBackward, {tokens, width, 2, 8 * expert_rows}},
      {K::GateForward, {tokens, width}, {}, 1},
      {K::GateBackward, {tokens, width}},
      {K::Add, {tokens, width}, {}, 1},
      {K::Dropout, {tokens, width}, {0.1, 0}, 1},
      {K::Scale, {tokens * width}, {0.5}},
      {K::Regroup, {tokens, heads, head_dim, head_dim, head_dim, 0}},
      {K::JoinLatent, {tokens, heads, head_dim, narrow, head_dim}},
      {K::PartLatent, {tokens, heads, head_dim, narrow, head_dim}},
      {K::JoinColumns, {tokens, width, 2 * head_dim}},
      {K::PartColumns, {tokens, width, 2 * head_dim}},
      {K::Fill, {12 * width * width}, {0.0}},
      {K::Sum, {tokens}},
      {K::NormSquared, {12 * width * width, 1}},
      {K::AdamW, {12 * width * width}, {0.9, 0.95, 1e-8, 0.1}},
      {K::Adam, {12 * width * width}, {0.9, 0.95, 1e-8, 0.1}},
      {K::AdamW8bit, {12 * width * width, 256}, {0.9, 0.95, 1e-8, 0.1}},
      {K::Lion, {12 * width * width}, {0.9, 0.99, 0.1}},
      {K::Momentum, {12 * width * width}, {0.95, 1}},
      {K::Normalize, {12 * width * width}, {1e-7}},
      {K::Muon, {12 * width * width}, {1, 0.1}},
      {K::ReplicaTerm, {12 * width * width}, {0.5}},
      {K::OuterSgd, {12 * width * width}, {0.7, 0.9, 1}},
      {K::FactorSums, matrix, {1.0}},
      {K::FactorMoments, {weights}, {1.0, -0.8, 1e-30}},
      {K::FactoredSquares, matrix, {1.0}},
      {K::Adafactor, matrix, {1e-3, 1, 0, 0}},
      {K::Sgd, {12 * width * width}, {0.9, 1e-4}},
      {K::ToCodes, {12 * width * width, 1, 1, 2048, 8, 3 * width * width}},
      {K::FromCodes, {3 * width * width / 2, 8, 2048, 4, 3 * width * width / 16, 8}},
      {K::Orthonormalize, {4 * width, 4}, {1e-5, 0}},
  };
}

/// Kernels of a residual network with `width` channels on images of as many positions as `tokens`.
std::vector<Shape> residual_network(std::int64_t tokens, std::int64_t width) {
  using K = KernelKind;
  std::int64_t side = 1;
  while (side * side < tokens) ++side;
  const std::int64_t rows = 2 * side * side;
  const std::vector<std::int64_t> image = {2, side, side, width, width, 3, 1};
  const std::vector<std::int64_t> narrow = {8, side, side, 8, 8, 3, 1};  // as small models have it
  const std::vector<std::int64_t> pooled = {2, side, side, width, 3, 2};
  return {
      {K::Conv2dForward, image},
      {K::Conv2dBackwardInput, image},
      {K::Conv2dBackwardWeight, image},
      {K::Conv2dForward, narrow},
      {K::Conv2dBackwardInput, narrow},
      {K::Conv2dBackwardWeight, narrow},
      {K::BatchNormStatistics, {rows, width}},
      {K::BatchNormCombine, {8, width}},
      {K::BatchNormRunning, {width}, {0.1, 1.0}},
      {K::BatchNormForward, {rows, width}, {1e-5}},
      {K::BatchNormBackwardSums, {rows, width}, {1e-5}},
      {K::BatchNormBackwardInput, {rows, width}, {1e-5, static_cast<double>(rows)}},
      {K::BatchNormBackwardWeight, {width}},
      {K::ReluForward, {rows * width}},
      {K::ReluBackward, {rows * width}},
      {K::MaxPoolForward, pooled},
      {K::MaxPoolBackward, pooled},
      {K::AveragePoolForward, {2, side * side, width}},
      {K::AveragePoolBackward, {2, side * side, width}},
  };
}

std::int16_t add_operands(const std::vector<OperandRow>& rows, DType dtype, int optional,
                          std::int16_t next, std::vector<Operand>& to) {
  for (const OperandRow& row : rows) {
    const bool present = !row.optional || optional-- > 0;
    to.push_back(present ? Operand{next++, usual_dtype(row.type, dtype), 0} : Operand{});
  }
  return next;
}

double ideal_time(const DeviceSpec& device, const Kernel& kernel) {
  const Work w = work(kernel);
  FlopsPerSecond peak = device.peaks.front().rate;
  for (const PeakRate& own : device.peaks) {
    if (own.dtype == kernel.dtype) peak = own.rate;
  }
  return std::max((w.flops / peak).v, (w.bytes / device.memory_bandwidth).v);
}

double busy_time(const DeviceSpec& device, double seconds) {
  return std::max(seconds - device.launch_overhead.v, seconds * 0.1);
}

std::int64_t width_of(const Kernel& kernel) {
  const KernelRow& row = info(kernel.kind);
  return row.width ? row.width.elements(kernel) : 0;
}

constexpr double kOnePoint = 1.2;  // ideal times that differ by less make one point of a curve

void add_point(std::vector<EfficiencyCurve>& curves, std::string_view kernel, std::int64_t width,
               CurveType type, EfficiencyPoint p) {
  auto curve = std::find_if(curves.begin(), curves.end(), [&](const EfficiencyCurve& c) {
    return c.kernel == kernel && c.width == width && c.dtype == type;
  });
  if (curve == curves.end()) {
    curves.push_back({std::string(kernel), {}, width, type});
    curve = curves.end() - 1;
  }
  for (EfficiencyPoint& other : curve->points) {
    if (p.ideal.v < other.ideal.v * kOnePoint && other.ideal.v < p.ideal.v * kOnePoint) {
      other.efficiency = (other.efficiency + p.efficiency) / 2;
      return;
    }
  }
  const auto at = std::find_if(curve->points.begin(), curve->points.end(),
                               [&](const EfficiencyPoint& o) { return o.ideal.v > p.ideal.v; });
  curve->points.insert(at, p);
}

}  // namespace

Kernel calibration_kernel(KernelKind kind, DType dtype, const std::vector<std::int64_t>& dims,
                          const std::vector<double>& scalars, int optional_inputs,
                          int optional_outputs) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = dtype;
  std::copy(dims.begin(), dims.end(), kernel.dims.begin());
  std::copy(scalars.begin(), scalars.end(), kernel.scalars.begin());
  const std::int16_t outputs = add_operands(info(kind).in, dtype, optional_inputs, 0, kernel.in);
  add_operands(info(kind).out, dtype, optional_outputs, outputs, kernel.out);
  return kernel;
}

std::vector<Kernel> calibration_kernels(DType dtype, std::int64_t tokens, std::int64_t width) {
  std::vector<Shape> shapes = transformer_layer(tokens, width);
  const std::vector<Shape> vision = residual_network(tokens, width);
  shapes.insert(shapes.end(), vision.begin(), vision.end());
  std::vector<Kernel> kernels;
  for (const Shape& s : shapes) {
    kernels.push_back(calibration_kernel(s.kind, dtype, s.dims, s.scalars, s.optional_inputs,
                                         s.optional_outputs));
  }
  return kernels;
}

bool same_work(const Kernel& a, const Kernel& b) {
  const auto like_operands = [](const std::vector<Operand>& x, const std::vector<Operand>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const Operand& p, const Operand& q) {
                        return p.present() == q.present() && (!p.present() || p.dtype == q.dtype);
                      });
  };
  return a.kind == b.kind && a.accumulate == b.accumulate && a.stochastic == b.stochastic &&
         a.dtype == b.dtype && a.dims == b.dims && like_operands(a.in, b.in) &&
         like_operands(a.out, b.out);
}

void add_measurement(DeviceSpec& device, const Kernel& kernel, double seconds, CurveType type) {
  const double ideal = ideal_time(device, kernel);
  const double busy = busy_time(device, seconds);
  add_point(device.efficiency, info(kernel.kind).name, width_of(kernel), type,
            {Seconds{ideal}, ideal / busy});
}

void add_measurements(DeviceSpec& device, std::vector<KernelTime> times) {
  std::erase_if(times, [&](const KernelTime& t) { return !(ideal_time(device, t.kernel) > 0); });
  std::stable_sort(times.begin(), times.end(), [&](const KernelTime& a, const KernelTime& b) {
    return ideal_time(device, a.kernel) < ideal_time(device, b.kernel);
  });
  while (!times.empty()) {
    const KernelTime first = times.front();
    const double least = ideal_time(device, first.kernel);
    double ideal = 0, busy = 0;
    std::erase_if(times, [&](const KernelTime& t) {
      const double own = ideal_time(device, t.kernel);
      const bool joins = t.kernel.kind == first.kernel.kind &&
                         t.kernel.dtype == first.kernel.dtype &&
                         width_of(t.kernel) == width_of(first.kernel) && own < least * kOnePoint;
      if (joins) ideal += t.count * own, busy += t.count * busy_time(device, t.seconds);
      return joins;
    });
    const bool narrow = first.kernel.dtype == DType::BF16;
    add_point(device.efficiency, info(first.kernel.kind).name, width_of(first.kernel),
              narrow ? CurveType::BF16 : CurveType::All, {Seconds{least}, ideal / busy});
  }
}

}  // namespace lockstep
