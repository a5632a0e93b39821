#include "backends/cuda/calibrate.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "core/calibration/calibration.hpp"

namespace lockstep::cuda {
namespace {

constexpr std::int64_t kPatternBytes = std::int64_t{16} << 20;

/// Makes driver calls one after the other. After one has failed, the others do nothing.
class Bench {
 public:
  explicit Bench(Driver& gpu) : gpu_(gpu) {
    stream_ = take(gpu.create_stream(Priority::Normal), StreamHandle{});
    begin_ = take(gpu.create_event(Timing::On), EventHandle{});
    end_ = take(gpu.create_event(Timing::On), EventHandle{});
    pinned_ =
        take(gpu.allocate(Memory::PinnedHost, kPatternBytes), static_cast<std::byte*>(nullptr));
  }
  ~Bench() {
    if (stream_ != nullptr) {
      static_cast<void>(gpu_.synchronize(stream_));
      gpu_.release(stream_);
    }
    for (const EventHandle event : {begin_, end_}) {
      if (event != nullptr) gpu_.release(event);
    }
    if (pinned_ != nullptr) gpu_.release(Memory::PinnedHost, pinned_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Driver& gpu() { return gpu_; }
  StreamHandle stream() { return stream_; }
  std::byte* pinned() { return pinned_; }
  /// Whether pinned() holds the pattern of this type already; afterwards it counts as holding it.
  bool pattern_is(DType dtype) { return std::exchange(pattern_, dtype) == dtype; }
  const Result<void>& state() const { return state_; }
  void keep(const Result<void>& result) {
    if (state_ && !result) state_ = result.error();
  }
  template <class T>
  T take(Result<T> result, T otherwise) {
    if (result) return std::move(*result);
    if (state_) state_ = result.error();
    return otherwise;
  }

  /// Seconds of one call of `work`, as the mean of `times` calls in a row; the least of `rounds`
  /// such means.
  template <class Work>
  double time(int rounds, int times, const Work& work) {
    double best = 1e9;
    if (state_) keep(work());  // warms plans, caches and clocks
    for (int r = 0; r < rounds && state_; ++r) {
      keep(gpu_.record(begin_, stream_));
      for (int i = 0; i < times && state_; ++i) keep(work());
      if (state_) keep(gpu_.record(end_, stream_));
      if (state_) keep(gpu_.synchronize(stream_));
      if (!state_) break;
      best = std::min(best, take(gpu_.elapsed(begin_, end_), Seconds{1e9}).v / times);
    }
    return best;
  }

 private:
  Driver& gpu_;
  Result<void> state_;
  StreamHandle stream_ = nullptr;
  EventHandle begin_ = nullptr, end_ = nullptr;
  std::byte* pinned_ = nullptr;
  std::optional<DType> pattern_;
};

/// A kernel with operands in the GPU's memory: random values in [-1, 1], and ids below 251.
class Subject {
 public:
  Subject(Bench& bench, Kernel kernel) : bench_(bench), kernel_(std::move(kernel)) {
    call_.kernel = &kernel_;
    call_.context = {1, 1e-4};
    for (std::size_t i = 0; i < kernel_.in.size(); ++i) {
      call_.in[i] = memory_for(kernel_.in[i], input_elements(kernel_, i));
    }
    for (std::size_t i = 0; i < kernel_.out.size(); ++i) {
      call_.out[i] = memory_for(kernel_.out[i], output_elements(kernel_, i));
    }
    call_.scratch = allocate(bench.gpu().scratch_bytes(kernel_));
  }
  ~Subject() {
    if (bench_.stream() != nullptr) {
      static_cast<void>(bench_.gpu().synchronize(bench_.stream()));
    }
    for (std::byte* memory : memory_) bench_.gpu().release(Memory::Device, memory);
  }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  double measure(int rounds, int times) {
    return bench_.time(rounds, times, [&] { return bench_.gpu().launch(bench_.stream(), call_); });
  }
  /// Seconds of this product with `next` in its epilogue; the first operand of `next` is then the
  /// product's result. Empty if the GPU does not run the two as one.
  std::optional<double> measure_with(const Subject& next, int rounds, int times) {
    KernelCall follows = next.call_;
    follows.in[0] = call_.out[0];
    const auto launch = [&] { return bench_.gpu().launch_fused(bench_.stream(), call_, follows); };
    if (!bench_.state() || !bench_.take(launch(), false)) return std::nullopt;
    return bench_.time(rounds, times, [&]() -> Result<void> {
      const auto done = launch();
      return done ? Result<void>() : done.error();
    });
  }

 private:
  std::byte* allocate(std::int64_t bytes) {
    if (!bench_.state()) return nullptr;
    std::byte* memory =
        bench_.take(bench_.gpu().allocate(Memory::Device, std::max<std::int64_t>(bytes, 1)),
                    static_cast<std::byte*>(nullptr));
    if (memory != nullptr) memory_.push_back(memory);
    return memory;
  }
  std::byte* memory_for(const Operand& operand, std::int64_t elements) {
    if (!operand.present()) return nullptr;
    const std::int64_t bytes = elements * size_of(operand.dtype);
    std::byte* memory = allocate(bytes);
    if (memory == nullptr) return nullptr;
    write_pattern(operand.dtype);
    for (std::int64_t at = 0; at < bytes && bench_.state(); at += kPatternBytes) {
      bench_.keep(bench_.gpu().copy(bench_.stream(), memory + at, bench_.pinned(),
                                    std::min(kPatternBytes, bytes - at)));
    }
    if (bench_.state()) bench_.keep(bench_.gpu().synchronize(bench_.stream()));
    return memory;
  }
  void write_pattern(DType dtype) {
    if (bench_.pattern_is(dtype)) return;
    std::mt19937 random(7);
    for (std::int64_t at = 0; at + size_of(dtype) <= kPatternBytes; at += size_of(dtype)) {
      const auto bits = static_cast<std::uint32_t>(random());
      const double value = static_cast<double>(bits) / 2147483648.0 - 1;
      if (dtype == DType::F64) {
        std::memcpy(bench_.pinned() + at, &value, 8);
      } else if (dtype == DType::I32) {
        const auto id = static_cast<std::int32_t>(bits % 251);
        std::memcpy(bench_.pinned() + at, &id, 4);
      } else {
        const auto single = static_cast<float>(value);
        std::byte bytes[4];
        std::memcpy(bytes, &single, 4);
        const std::int64_t size = size_of(dtype);  // bfloat16 is the upper half of a float32
        std::memcpy(bench_.pinned() + at, bytes + (4 - size), static_cast<std::size_t>(size));
      }
    }
  }

  Bench& bench_;
  Kernel kernel_;
  KernelCall call_;
  std::vector<std::byte*> memory_;
};

/// Seconds that GELU, or its gradient, adds to the product that has it in its epilogue, as a step
/// runs them; empty if no product does.
std::optional<double> time_in_epilogue(Bench& bench, const Kernel& gelu, std::int64_t tokens,
                                       std::int64_t width, int rounds) {
  const bool forward = gelu.kind == KernelKind::GeluForward;
  if (!forward && gelu.kind != KernelKind::GeluBackward) return std::nullopt;
  Subject product(bench,
                  calibration_kernel(KernelKind::Gemm, gelu.dtype,
                                     {tokens, gelu.dims[0] / tokens, width, 0, forward ? 1 : 0}, {},
                                     forward ? 1 : 0));
  Subject next(bench, gelu);
  const auto together = product.measure_with(next, rounds, 5);
  if (!together) return std::nullopt;
  const double apart = product.measure(rounds, 5);
  return std::max(*together - apart, 0.01 * apart);
}

PeakRate peak(Bench& bench, DType dtype, std::int64_t n, int rounds) {
  const Kernel product = calibration_kernel(KernelKind::Gemm, dtype, {n, n, n, 0, 1});
  Subject subject(bench, product);
  return {dtype, {work(product).flops.v / subject.measure(rounds, 3)}};
}

/// Bytes per second, when `bytes` are copied at a time.
double copy_rate(Bench& bench, std::byte* to, const std::byte* from, std::int64_t bytes,
                 int rounds) {
  return static_cast<double>(bytes) /
         bench.time(rounds, 4, [&] { return bench.gpu().copy(bench.stream(), to, from, bytes); });
}

}  // namespace

Result<Seconds> measure(Driver& gpu, const Kernel& kernel, int rounds, int times) {
  Bench bench(gpu);
  Subject subject(bench, kernel);
  const double seconds = subject.measure(rounds, times);
  if (!bench.state()) return bench.state().error();
  return Seconds{seconds};
}

Result<ClusterSpec> calibrate_gpu(Driver& gpu, const GpuCalibrateOptions& options) {
  Bench bench(gpu);
  const int rounds = options.quick ? 3 : 10;
  ClusterSpec cluster;
  cluster.name = gpu.info().name + " (calibrated)";
  cluster.ranks_per_device = options.ranks_per_device;
  DeviceSpec& device = cluster.device;
  device.name = gpu.info().name;
  device.memory = gpu.info().memory;
  const std::int64_t n = options.quick ? 2048 : 8192;
  device.peaks = {peak(bench, DType::BF16, n, rounds), peak(bench, DType::F16, n, rounds),
                  peak(bench, DType::F32, n / 2, rounds), peak(bench, DType::F64, n / 2, rounds)};
  // The peak to which efficiencies refer comes first.
  std::stable_partition(device.peaks.begin(), device.peaks.end(),
                        [&](const PeakRate& peak) { return peak.dtype == options.dtype; });

  const std::int64_t block = std::int64_t{options.quick ? 64 : 512} << 20;
  std::byte* const memory = bench.state() ? bench.take(gpu.allocate(Memory::Device, 2 * block),
                                                       static_cast<std::byte*>(nullptr))
                                          : nullptr;
  if (memory != nullptr) {
    const double copied = copy_rate(bench, memory + block, memory, block, rounds);
    device.memory_bandwidth = {2 * copied};
    device.host_bandwidth = {copy_rate(bench, memory, bench.pinned(), kPatternBytes, rounds)};
    const double small =
        bench.time(rounds, 50, [&] { return gpu.copy(bench.stream(), memory + block, memory, 4); });
    cluster.intra_node = {{copied}, {small}};
    cluster.inter_node = cluster.intra_node;  // not used, because there is one node
    gpu.release(Memory::Device, memory);
  }
  if (bench.state()) {
    Subject smallest(bench, calibration_kernel(KernelKind::Fill, DType::BF16, {1}, {0.0}));
    device.launch_overhead = {smallest.measure(rounds, 200)};
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{1024, 256}, {4096, 768}};
  if (!options.quick) sizes.insert(sizes.end(), {{8192, 1024}, {16384, 1600}, {16384, 2048}});
  for (const auto& [tokens, width] : sizes) {
    for (const Kernel& kernel : calibration_kernels(options.dtype, tokens, width)) {
      if (!bench.state()) return bench.state().error();
      if (!gpu.supports(kernel)) continue;
      const auto in_epilogue = time_in_epilogue(bench, kernel, tokens, width, rounds);
      Subject subject(bench, kernel);
      add_measurement(device, kernel, in_epilogue ? *in_epilogue : subject.measure(rounds, 5));
    }
  }
  if (!bench.state()) return bench.state().error();
  return cluster;
}

}  // namespace lockstep::cuda
