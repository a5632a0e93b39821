#include "core/fit/traced_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/calibration/calibration.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/validation/statistics.hpp"

namespace lockstep {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr double kLeastMoved = 64 << 20;  // bytes; less stays in a card's cache
constexpr double kShortestRow = 20e-6;    // seconds; less is a kernel's beginning and end
constexpr std::size_t kRemarked = 5;      // the most operators that are remarked

/// The elementwise operators, and how many of their inputs are tensors of the result's kind.
constexpr std::array<std::pair<std::string_view, int>, 17> kElementwise = {{
    {"aten::add", 2},
    {"aten::add_", 2},
    {"aten::sub", 2},
    {"aten::mul", 2},
    {"aten::mul_", 2},
    {"aten::div", 2},
    {"aten::div_", 2},
    {"aten::copy_", 2},
    {"aten::gelu", 1},
    {"aten::silu", 1},
    {"aten::clamp_min", 1},
    {"aten::relu", 1},
    {"aten::neg", 1},
    {"aten::gelu_backward", 2},
    {"aten::silu_backward", 2},
    {"aten::threshold_backward", 2},
    {"aten::sigmoid", 1},
}};

std::optional<DType> dtype_of(const std::string& type) {
  if (type == "c10::BFloat16") return DType::BF16;
  if (type == "c10::Half") return DType::F16;
  if (type == "float") return DType::F32;
  if (type == "double") return DType::F64;
  return std::nullopt;
}

std::string text_of(const Dims& dims) {
  std::string text;
  for (const std::int64_t d : dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

double bytes_of(DType type) { return static_cast<double>(size_of(type)); }

double elements(const Dims& dims) {
  double product = 1;
  for (const std::int64_t d : dims) product *= static_cast<double>(d);
  return product;
}

/// What a kernel is compared with, and a name that all kernels of its shape share.
struct Shape {
  std::string name;
  TimeModel model;
};

/// Whether a matrix lies column by column.
bool transposed(const TracedTensor& t) {
  return t.strides.size() == 2 && t.strides[0] == 1 && t.strides[1] != 1;
}

std::optional<Shape> product_shape(const TracedKernel& traced) {
  const std::size_t first = traced.op == "aten::addmm" ? 1 : 0;
  if (traced.op != "aten::mm" && traced.op != "aten::addmm") return std::nullopt;
  if (traced.inputs.size() < first + 2) return std::nullopt;
  const TracedTensor &a = traced.inputs[first], &b = traced.inputs[first + 1];
  const auto dtype = dtype_of(a.type);
  if (!dtype || a.dims.size() != 2 || b.dims.size() != 2 || a.dims[1] != b.dims[0]) {
    return std::nullopt;
  }
  const Dims dims = {a.dims[0], b.dims[1], a.dims[1], transposed(a) ? 1 : 0, transposed(b) ? 1 : 0};
  if (*std::min_element(dims.begin(), dims.begin() + 3) < 1) return std::nullopt;
  const Kernel kernel = calibration_kernel(KernelKind::Gemm, *dtype, dims, {}, first == 1 ? 1 : 0);
  return Shape{
      traced.op + " " + std::string(to_string(*dtype)) + " " + text_of({dims[0], dims[1], dims[2]}),
      [kernel](const ClusterSpec& cluster) -> Result<Seconds> {
        // A trace's kernels begin when they run, so that their times have no launch in them. What a
        // framework's kernels move beside products is in kernels of its own there.
        FrameworkSpec products;
        products.new_capability = cluster.framework.new_capability;
        products.new_matmul_rate = cluster.framework.new_matmul_rate;
        return kernel_time(kernel, cluster.device, products) - cluster.device.launch_overhead;
      }};
}

std::optional<Shape> elementwise_shape(const TracedKernel& traced) {
  const auto known = std::find_if(kElementwise.begin(), kElementwise.end(),
                                  [&](const auto& row) { return row.first == traced.op; });
  if (known == kElementwise.end()) return std::nullopt;
  double result = 0, bytes = 0;
  std::string name = traced.op;
  std::optional<DType> widest;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, traced.inputs.size()); ++i) {
    const TracedTensor& input = traced.inputs[i];
    const auto dtype = dtype_of(input.type);
    if (!dtype || input.dims.empty()) {
      if (static_cast<int>(i) < known->second && i == 0) return std::nullopt;
      continue;
    }
    if (!widest || size_of(*dtype) > size_of(*widest)) widest = dtype;
    result = std::max(result, elements(input.dims));
    if (static_cast<int>(i) >= known->second) continue;
    name += " " + std::string(to_string(*dtype)) + " " + text_of(input.dims);
    // The target of a copy is written, not read.
    if (traced.op != "aten::copy_" || i == 1) bytes += elements(input.dims) * bytes_of(*dtype);
  }
  if (!widest) return std::nullopt;
  const auto target = dtype_of(traced.inputs[0].type);
  bytes += result * bytes_of(traced.op == "aten::copy_" && target ? *target : *widest);
  if (bytes < kLeastMoved) return std::nullopt;
  return Shape{name, [bytes](const ClusterSpec& cluster) -> Result<Seconds> {
                 return Seconds{bytes / copy_rate(cluster.device).v};
               }};
}

}  // namespace

Result<TracedObservations> observations_of(const std::vector<TracedKernel>& kernels,
                                           const ClusterSpec& cluster, const std::string& file) {
  struct Found {
    std::string op;
    TimeModel model;
    std::map<std::int64_t, double> times;  // by call
  };
  std::map<std::string, Found> shapes;
  std::map<std::string, double> others;  // seconds, by operator
  std::vector<double> gaps;
  double total = 0;
  bool any_shape = false;
  for (const TracedKernel& kernel : kernels) {
    total += kernel.time.v;
    if (kernel.gap && kernel.gap->v > 0) gaps.push_back(kernel.gap->v);
    for (const TracedTensor& input : kernel.inputs) any_shape |= !input.dims.empty();
    std::optional<Shape> shape = product_shape(kernel);
    if (!shape) shape = elementwise_shape(kernel);
    if (!shape || !(kernel.time.v > 0)) {
      others[kernel.op] += kernel.time.v;
      continue;
    }
    Found& found = shapes[shape->name];
    found.op = kernel.op;
    found.model = std::move(shape->model);
    found.times[kernel.call] += kernel.time.v;
  }
  if (!any_shape) {
    return invalid(file + ": no operator has a shape; profile with record_shapes=True");
  }
  TracedObservations result;
  for (auto& [name, found] : shapes) {
    std::vector<double> times;
    for (const auto& [call, seconds] : found.times) times.push_back(seconds);
    if (percentile(times, 0.5) < kShortestRow) {
      for (const double seconds : times) others[found.op + " of small shapes"] += seconds;
      continue;
    }
    result.rows.push_back({name + " (" + std::to_string(times.size()) + ")",
                           found.op,
                           {percentile(times, 0.5)},
                           cluster,
                           std::move(found.model),
                           true});
  }
  if (!gaps.empty()) {
    result.rows.push_back(
        {"launch (" + std::to_string(gaps.size()) + ")",
         "launch",
         {percentile(gaps, 0.5)},
         cluster,
         [](const ClusterSpec& c) -> Result<Seconds> { return c.device.launch_overhead; },
         true});
  }
  std::vector<std::pair<double, std::string>> largest;
  for (const auto& [op, seconds] : others) largest.emplace_back(-seconds, op);
  std::sort(largest.begin(), largest.end());
  for (std::size_t i = 0; i < std::min(kRemarked, largest.size()); ++i) {
    const long share = std::lround(-100 * largest[i].first / total);
    if (share < 1) break;
    result.remarks.push_back(largest[i].second + " not compared: " + std::to_string(share) +
                             " % of the kernels' time");
  }
  if (result.rows.empty()) return invalid(file + ": no product and no large elementwise operator");
  return result;
}

}  // namespace lockstep
