#include "backends/cpu/calibrate.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/kernels.hpp"
#include "core/base/bfloat16.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/calibration/calibration.hpp"

namespace lockstep::cpu {
namespace {

/// The processor time of the calling thread, in which other work that interrupts it does not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The least time of one call; repeats it for `budget` seconds, and at least `least` times.
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

/// The rate of a loop of multiply-adds. Windows are long enough that the processor's clock settles
/// at the frequency that it holds under heavy vector code.
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

/// A kernel with two sets of buffers that take turns, as layers and microbatches do, so that an
/// operand has not been read by the kernel just before. Large ones leave the caches anyway.
class Subject {
 public:
  explicit Subject(Kernel kernel) : kernel_(std::move(kernel)) {
    constexpr std::size_t kLarge = std::size_t{32} << 20;
    copies_.push_back(allocate());
    std::size_t bytes = 0;
    for (const std::vector<float>& block : copies_.front()) bytes += block.size() * sizeof(float);
    if (bytes < kLarge) copies_.push_back(copies_.front());
  }

  /// The median time of one run in processor time of the calling thread, in which other work that
  /// interrupts it does not count. Measures for `budget` seconds and at least `least` times. Runs
  /// that are shorter than reading the clock is exact to are timed several together.
  double measure(double budget, std::size_t least, ThreadTeam& team) {
    constexpr double kShortest = 20e-6;
    for (std::size_t i = 0; i < copies_.size(); ++i) run_next(team);  // touches all memory
    int batch = 1;
    const auto timed = [&] {
      const double begin = thread_seconds();
      for (int i = 0; i < batch; ++i) run_next(team);
      return thread_seconds() - begin;
    };
    while (timed() < kShortest) batch *= 2;
    std::vector<double> times;
    for (double total = 0; times.size() < least || total < budget; total += times.back()) {
      times.push_back(timed());
    }
    return median(times) / batch;
  }

 private:
  using Memory = std::vector<std::vector<float>>;  // a block for each present operand

  Memory allocate() const {
    Memory memory;
    for (std::size_t i = 0; i < kernel_.in.size(); ++i) {
      if (kernel_.in[i].present())
        memory.push_back(values(input_elements(kernel_, i), kernel_.in[i].dtype));
    }
    for (std::size_t i = 0; i < kernel_.out.size(); ++i) {
      if (kernel_.out[i].present()) {
        memory.push_back(values(output_elements(kernel_, i), kernel_.out[i].dtype));
      }
    }
    return memory;
  }

  // Values are sixteenths below one; ids are smaller than any vocabulary.
  static std::vector<float> values(std::int64_t elements, DType dtype) {
    if (size_of(dtype) == 2) {
      std::vector<float> block(to_size(ceil_div(elements, 2)));
      auto* const bytes = reinterpret_cast<std::byte*>(block.data());
      for (std::int64_t i = 0; i < elements; ++i) {
        const bfloat16 value(static_cast<float>(i * 7 % 16) / 16);
        std::memcpy(bytes + 2 * i, &value, sizeof value);
      }
      return block;
    }
    std::vector<float> block(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < block.size(); ++i) {
      block[i] = static_cast<float>(i * 7 % 16) / 16;
      if (dtype == DType::I32) {
        const auto id = static_cast<std::int32_t>(i * 97 % 251);
        std::memcpy(&block[i], &id, sizeof id);
      }
    }
    return block;
  }

  void run_next(ThreadTeam& team) {
    buffers_.clear();
    for (std::vector<float>& block : copies_[next_]) {
      buffers_.push_back(reinterpret_cast<std::byte*>(block.data()));
    }
    next_ = (next_ + 1) % copies_.size();
    run_kernel(kernel_, buffers_, StepContext{1, 1e-4}, team);
  }

  Kernel kernel_;
  std::vector<Memory> copies_;
  std::size_t next_ = 0;
  std::vector<std::byte*> buffers_;
};

/// Seconds of each kernel, the mean over `threads` threads that measure at one time, each another
/// kernel, as neighbouring ranks are at other work.
std::vector<double> kernel_times(const std::vector<Kernel>& kernels, int threads,
                                 const CalibrateOptions& options) {
  std::vector<double> sums(kernels.size());
  ThreadTeam team(threads);
  std::vector<std::unique_ptr<Subject>> subjects(to_size(threads));
  std::vector<double> times(to_size(threads));
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (options.on_progress)
      options.on_progress(static_cast<int>(i), static_cast<int>(kernels.size()));
    const auto kernel_of = [&](int member) {
      return (i + kernels.size() * to_size(member) / to_size(threads)) % kernels.size();
    };
    // All allocate before any measures, because allocating is another kind of neighbour.
    team.run([&](int member) {
      subjects[to_size(member)] = std::make_unique<Subject>(kernels[kernel_of(member)]);
    });
    team.run([&](int member) {
      ThreadTeam alone(1);
      times[to_size(member)] = subjects[to_size(member)]->measure(options.quick ? 0.005 : 0.05,
                                                                  options.quick ? 5 : 9, alone);
    });
    for (int member = 0; member < threads; ++member) {
      sums[kernel_of(member)] += times[to_size(member)] / threads;
    }
  }
  if (options.on_progress)
    options.on_progress(static_cast<int>(kernels.size()), static_cast<int>(kernels.size()));
  return sums;
}

std::vector<Kernel> usual_kernels(bool quick) {
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{32, 64}, {128, 256}, {256, 768}};
  if (!quick) sizes.insert(sizes.end(), {{64, 128}, {256, 384}, {1024, 768}});
  std::vector<Kernel> kernels;
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const auto& [tokens, width] : sizes) {
      const std::vector<Kernel> of_size = calibration_kernels(dtype, tokens, width);
      kernels.insert(kernels.end(), of_size.begin(), of_size.end());
    }
  }
  return kernels;
}

/// The highest rate of the products in bfloat16: there is no loop of nothing but tile products to
/// tell the peak, and on processors without tiles they are products of float32.
FlopsPerSecond product_peak(const std::vector<Kernel>& kernels,
                            const std::vector<double>& seconds) {
  double best = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].kind != KernelKind::Gemm || kernels[i].dtype != DType::BF16) continue;
    best = std::max(best, work(kernels[i]).flops.v / seconds[i]);
  }
  return {best};
}

constexpr double kSmallWork = 100e-6;  // s, of a small kernel

}  // namespace

Seconds hand_over_time(Seconds work, int turns) {
  using Clock = std::chrono::steady_clock;
  const auto own = std::chrono::duration<double>(work.v);
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;  // even: the caller's
  Clock::time_point notified = Clock::now();
  std::vector<double> times;
  const auto play = [&](int parity) {
    for (std::unique_lock lock(mutex); turn < turns; lock.lock()) {
      changed.wait(lock, [&] { return turn % 2 == parity || turn >= turns; });
      const auto begin = Clock::now();
      times.push_back(std::chrono::duration<double>(begin - notified).count());
      while (Clock::now() - begin < own) continue;
      ++turn;
      notified = Clock::now();
      lock.unlock();  // as those that are measured for wake each other
      changed.notify_one();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  return {median(times)};
}

Result<ClusterSpec> calibrate_cpu(const CalibrateOptions& options) {
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  const std::int64_t memory = page * sysconf(_SC_PHYS_PAGES);
  if (page * sysconf(_SC_AVPHYS_PAGES) < std::int64_t{1} << 30) {
    return Error{ErrorKind::Device, "calibration needs 1 GiB of free memory", {}};
  }
  const KernelTable& table = kernel_tables().best();
  const int cores = num_cores();
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
    cluster.intra_node = {{copied}, {}};      // nothing beside the threads' hand-over
    cluster.inter_node = cluster.intra_node;  // not used, because there is one node
  }

  ThreadTeam alone(1);
  Subject smallest(calibration_kernel(KernelKind::Fill, DType::F32, {1}, {0.0}));
  device.launch_overhead = {smallest.measure(0.01, 20, alone)};

  if (!options.kernels) return cluster;
  device.hand_over = hand_over_time({kSmallWork}, options.quick ? 200 : 2000);
  const std::vector<Kernel> kernels = usual_kernels(options.quick);
  // The largest kernels take a few hundred megabytes on each thread.
  const std::int64_t free = page * sysconf(_SC_AVPHYS_PAGES);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(free >> 30, 1, cores));
  const std::vector<double> seconds = kernel_times(kernels, threads, options);
  device.peaks.push_back({DType::BF16, product_peak(kernels, seconds)});
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const bool narrow = kernels[i].dtype == DType::BF16;
    add_measurement(device, kernels[i], seconds[i], narrow ? CurveType::BF16 : CurveType::All);
  }
  return cluster;
}

}  // namespace lockstep::cpu
