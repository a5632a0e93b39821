#include "backends/cpu/calibrate.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/kernels.hpp"
#include "core/calibration/calibration.hpp"

namespace lockstep::cpu {
namespace {

/// The processor time of the calling thread, in which other work that interrupts it does not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
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

/// A kernel with buffers of its own.
class Subject {
 public:
  explicit Subject(Kernel kernel) : kernel_(std::move(kernel)) {
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

  /// The least time of one run. `batch` runs are timed together, because reading the clock takes
  /// longer than the smallest kernel.
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
  // Values are sixteenths below one; ids are smaller than any vocabulary.
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
  std::vector<std::vector<float>> memory_;
};

/// Half the seconds from waking a waiting thread to its answer.
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
    cluster.inter_node = cluster.intra_node;  // not used, because there is one node
  }

  ThreadTeam team(1);
  Subject smallest(calibration_kernel(KernelKind::Fill, DType::F32, {1}, {0.0}));
  device.launch_overhead = {smallest.measure(0.01, 20, team, 1000)};

  std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{32, 64}, {128, 256}, {256, 768}};
  if (!options.quick) sizes.insert(sizes.end(), {{64, 128}, {256, 384}, {1024, 768}});
  for (const auto& [tokens, width] : sizes) {
    for (const Kernel& kernel : calibration_kernels(DType::F32, tokens, width)) {
      Subject subject(kernel);
      add_measurement(device, kernel,
                      subject.measure(options.quick ? 0.005 : 0.05, options.quick ? 2 : 3, team));
    }
  }
  return cluster;
}

}  // namespace lockstep::cpu
