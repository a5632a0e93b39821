#include "backends/cpu/calibrate.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/kernel_table.hpp"
#include "backends/cpu/kernels.hpp"

namespace lockstep::cpu {
namespace {

/// The calling thread's processor time: other work on the machine that interrupts it does not
/// count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Least time of one call: repeats for `budget` seconds, at least `least` times.
template <class F>
double best_time(double budget, int least, const F& call) {
  double best = 1e9, total = 0;
  for (int i = 0; i < least || total < budget; ++i) {
    const double begin = thread_seconds();
    call();
    const double t = thread_seconds() - begin;
    best = std::min(best, t);
    total += t;
  }
  return best;
}

/// Rate of a loop of multiply-adds over windows long enough for the clock that heavy vector code
/// settles at, not the one it starts with.
template <class T>
double fma_rate(T (*rounds)(std::int64_t), std::int64_t flops_per_round, double window,
                int windows) {
  std::int64_t iterations = 1 << 16;
  volatile T sink = 0;
  const auto timed = [&] {
    const double begin = thread_seconds();
    sink = rounds(iterations);
    return thread_seconds() - begin;
  };
  while (timed() < window) iterations *= 2;
  double best = 1e9;
  for (int i = 0; i < windows; ++i) best = std::min(best, timed());
  return static_cast<double>(iterations * flops_per_round) / best;
}

/// A kernel over memory of its own.
class Subject {
 public:
  Subject(KernelKind kind, std::vector<std::int64_t> dims, std::vector<double> scalars,
          int optional_inputs, int optional_outputs) {
    kernel_.kind = kind;
    std::copy(dims.begin(), dims.end(), kernel_.dims.begin());
    std::copy(scalars.begin(), scalars.end(), kernel_.scalars.begin());
    bind(info(kind).in, optional_inputs, kernel_.in);
    bind(info(kind).out, optional_outputs, kernel_.out);
    std::size_t formal = 0;
    for (std::size_t i = 0; i < kernel_.in.size(); ++i) {
      if (!kernel_.in[i].present()) continue;
      allocate(formal, input_elements(kernel_, i), kernel_.in[i].dtype);
      ++formal;
    }
    for (std::size_t i = 0; i < kernel_.out.size(); ++i) {
      if (!kernel_.out[i].present()) continue;
      allocate(formal, output_elements(kernel_, i), kernel_.out[i].dtype);
      ++formal;
    }
  }

  const Kernel& kernel() const { return kernel_; }

  /// Least time of one run, of `batch` runs at a time: a clock costs more than the smallest kernel.
  double measure(double budget, int least, ThreadTeam& team, int batch = 1) {
    std::vector<std::byte*> buffers;
    for (auto& block : memory_) buffers.push_back(reinterpret_cast<std::byte*>(block.data()));
    const StepContext context{1, 1e-4};
    run_kernel(kernel_, buffers, context, team);  // touches the scratch memory
    const double t = best_time(budget, least, [&] {
      for (int i = 0; i < batch; ++i) run_kernel(kernel_, buffers, context, team);
    });
    return t / batch;
  }

 private:
  void bind(const std::vector<std::string_view>& names, int optional, std::vector<Operand>& to) {
    for (const std::string_view name : names) {
      const bool index = name == "ids" || name == "targets";
      const bool present = name.front() != '[' || optional-- > 0;
      to.push_back(present ? Operand{formals_++, index ? DType::I32 : DType::F32, 0} : Operand{});
    }
  }
  // Sixteenths below one; ids below any vocabulary.
  void allocate(std::size_t formal, std::int64_t elements, DType dtype) {
    memory_.resize(formal + 1);
    std::vector<float>& block = memory_[formal];
    block.resize(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < block.size(); ++i) {
      block[i] = static_cast<float>(i * 7 % 16) / 16;
      if (dtype == DType::I32) {
        const auto id = static_cast<std::int32_t>(i * 97 % 251);
        std::memcpy(&block[i], &id, sizeof id);
      }
    }
  }

  Kernel kernel_;
  std::int16_t formals_ = 0;
  std::vector<std::vector<float>> memory_;
};

struct Shape {
  KernelKind kind;
  std::vector<std::int64_t> dims;
  std::vector<double> scalars = {};
  int optional_inputs = 0, optional_outputs = 0;
};

/// Kernels of a transformer layer `width` wide on `tokens` tokens.
std::vector<Shape> shapes_of(std::int64_t tokens, std::int64_t width) {
  using K = KernelKind;
  const std::int64_t seq = std::min<std::int64_t>(tokens, 1024), batch = tokens / seq;
  const std::int64_t head_dim = std::min<std::int64_t>(width, 64), heads = width / head_dim;
  const std::int64_t vocab = 64 * width + 256;
  return {
      {K::Gemm, {tokens, 4 * width, width, 0, 1}, {}, 1},
      {K::Gemm, {tokens, width, 4 * width, 0, 0}},
      {K::Gemm, {4 * width, width, tokens, 1, 0}},
      {K::ColumnSum, {tokens, 4 * width}},
      {K::AttentionForward, {batch, seq, heads, heads, head_dim}},
      {K::AttentionBackward, {batch, seq, heads, heads, head_dim}},
      {K::LayerNormForward, {tokens, width}, {1e-5}},
      {K::LayerNormBackwardInput, {tokens, width}, {}, 1},
      {K::LayerNormBackwardWeight, {tokens, width}},
      {K::RmsNormForward, {tokens, width}, {1e-5}},
      {K::RmsNormBackwardInput, {tokens, width}, {}, 1},
      {K::RmsNormBackwardWeight, {tokens, width}},
      {K::GeluForward, {tokens * 4 * width}},
      {K::GeluBackward, {tokens * 4 * width}},
      {K::SwigluForward, {tokens, 2 * width}},
      {K::SwigluBackward, {tokens, 2 * width}},
      {K::Rope, {batch, seq, heads, head_dim, 3 * heads, 0}, {10000.0}},
      {K::EmbeddingForward, {tokens, width, seq, vocab}, {}, 1},
      {K::EmbeddingBackward, {tokens, width, seq, vocab}, {}, 0, 1},
      {K::CrossEntropy, {tokens, vocab}, {1.0}},
      {K::Fill, {12 * width * width}, {0.0}},
      {K::Sum, {tokens}},
      {K::NormSquared, {12 * width * width, 1}},
      {K::AdamW, {12 * width * width}, {0.9, 0.95, 1e-8, 0.1}},
      {K::Sgd, {12 * width * width}, {0.9, 1e-4}},
  };
}

/// Kernels of a residual network on images of as many positions as `tokens`, `width` channels.
std::vector<Shape> vision_shapes_of(std::int64_t tokens, std::int64_t width) {
  using K = KernelKind;
  std::int64_t side = 1;
  while (side * side < tokens) ++side;
  const std::int64_t rows = 2 * side * side;
  const std::vector<std::int64_t> image = {2, side, side, width, width, 3, 1};
  const std::vector<std::int64_t> pooled = {2, side, side, width, 3, 2};
  return {
      {K::Conv2dForward, image},
      {K::Conv2dBackwardInput, image},
      {K::Conv2dBackwardWeight, image},
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

/// One efficiency point; `device` holds the peaks, bandwidth and launch overhead already.
EfficiencyPoint point_of(Subject& subject, const DeviceSpec& device, bool quick, ThreadTeam& team) {
  const Work w = work(subject.kernel());
  const double ideal =
      std::max((w.flops / device.peaks.front().rate).v, (w.bytes / device.memory_bandwidth).v);
  const double measured = subject.measure(quick ? 0.005 : 0.05, quick ? 2 : 3, team);
  const double busy = std::max(measured - device.launch_overhead.v, measured * 0.1);
  return {Seconds{ideal}, ideal / busy};
}

/// Points sorted by time; points closer than 20 % become one (their geometric neighbours say the
/// same, and a curve needs ascending times).
void add_point(std::vector<EfficiencyCurve>& curves, std::string_view kernel, EfficiencyPoint p) {
  auto curve = std::find_if(curves.begin(), curves.end(),
                            [&](const EfficiencyCurve& c) { return c.kernel == kernel; });
  if (curve == curves.end()) {
    curves.push_back({std::string(kernel), {}});
    curve = curves.end() - 1;
  }
  for (EfficiencyPoint& other : curve->points) {
    if (p.ideal.v < other.ideal.v * 1.2 && other.ideal.v < p.ideal.v * 1.2) {
      other.efficiency = (other.efficiency + p.efficiency) / 2;
      return;
    }
  }
  const auto at = std::find_if(curve->points.begin(), curve->points.end(),
                               [&](const EfficiencyPoint& o) { return o.ideal.v > p.ideal.v; });
  curve->points.insert(at, p);
}

/// Seconds from waking a waiting thread to its answer, halved.
double wake_latency(bool quick) {
  ThreadTeam team(2);
  const int rounds = quick ? 200 : 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) team.parallel_for(2, 1, [](std::int64_t, std::int64_t) {});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  return waited.count() / rounds / 2;
}

}  // namespace

Result<ClusterSpec> calibrate_cpu(const CalibrateOptions& options) {
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  const std::int64_t memory = page * sysconf(_SC_PHYS_PAGES);
  if (page * sysconf(_SC_AVPHYS_PAGES) < std::int64_t{1} << 30) {
    return Error{ErrorKind::Device, "calibration needs 1 GiB of free memory", {}};
  }
  const KernelTable& table = kernel_tables().best();
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const double window = options.quick ? 0.03 : 0.2;

  ClusterSpec cluster;
  cluster.name = "cpu (calibrated)";
  cluster.ranks_per_device = options.ranks_per_device;
  DeviceSpec& device = cluster.device;
  device.name = std::string(table.isa) + ", " + std::to_string(cores) + " cores";
  device.memory = Bytes{memory};
  device.concurrent_ranks = cores;
  device.peaks = {
      {DType::F32, {fma_rate(table.fma_rounds_f32, table.fma_flops_per_round_f32, window, 3)}},
      {DType::F64, {fma_rate(table.fma_rounds_f64, table.fma_flops_per_round_f64, window, 3)}}};

  {
    const std::size_t size = std::size_t{options.quick ? 64u : 256u} << 20;
    std::vector<std::byte> from(size, std::byte{1}), to(size);
    const double t = best_time(window, 3, [&] { std::memcpy(to.data(), from.data(), size); });
    const double copied = static_cast<double>(size) / t;
    device.memory_bandwidth = {2 * copied};
    device.host_bandwidth = {copied};
    cluster.intra_node = {{copied}, {wake_latency(options.quick)}};
    cluster.inter_node = cluster.intra_node;  // one node: never used
  }

  ThreadTeam team(1);
  Subject smallest(KernelKind::Fill, {1}, {0.0}, 0, 0);
  device.launch_overhead = {smallest.measure(0.01, 20, team, 1000)};

  std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{32, 64}, {128, 256}, {256, 768}};
  if (!options.quick) sizes.insert(sizes.end(), {{64, 128}, {256, 384}, {1024, 768}});
  for (const auto& [tokens, width] : sizes) {
    std::vector<Shape> shapes = shapes_of(tokens, width);
    const std::vector<Shape> vision = vision_shapes_of(tokens, width);
    shapes.insert(shapes.end(), vision.begin(), vision.end());
    for (const Shape& shape : shapes) {
      Subject subject(shape.kind, shape.dims, shape.scalars, shape.optional_inputs,
                      shape.optional_outputs);
      add_point(device.efficiency, info(shape.kind).name,
                point_of(subject, device, options.quick, team));
    }
  }
  return cluster;
}

}  // namespace lockstep::cpu
