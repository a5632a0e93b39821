#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "backends/cuda/kernels/registry.hpp"
#include "backends/cuda/toolkit/cudnn_library.hpp"
#include "backends/cuda/toolkit/gpu_driver.hpp"
#include "backends/cuda/toolkit/multiplier.hpp"

namespace lockstep::cuda {
namespace {

cudaStream_t of(StreamHandle stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t of(EventHandle event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaGraphExec_t of(GraphHandle graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }

/// The error of a failed call. Clears what the call left for cudaGetLastError(), so that the next
/// kernel does not get it.
Error error_of(cudaError_t status, const std::string& call) {
  static_cast<void>(cudaGetLastError());
  const bool memory = status == cudaErrorMemoryAllocation;
  return {memory ? ErrorKind::OutOfMemory : ErrorKind::Device, call + ": " + gpu::reason(status),
          std::nullopt};
}
Result<void> check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return {};
  return error_of(status, call);
}

/// Chooses the GPU of this thread. Everything that chooses a GPU calls it; otherwise `current`
/// would be wrong.
void choose(int ordinal) {
  thread_local int current = -1;
  if (current == ordinal) return;
  if (cudaSetDevice(ordinal) == cudaSuccess) current = ordinal;
}

/// An empty kernel, which is compiled for the same GPUs as every other.
__global__ void nothing() {}

class GpuDriver final : public Driver {
 public:
  GpuDriver(int ordinal, const cudaDeviceProp& properties) : ordinal_(ordinal) {
    info_.name = properties.name;
    info_.memory = Bytes{static_cast<std::int64_t>(properties.totalGlobalMem)};
    info_.multiprocessors = properties.multiProcessorCount;
    info_.capability = properties.major * 10 + properties.minor;
    use();
    int least = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest_);
  }
  void use() const { choose(ordinal_); }
  const GpuInfo& info() const override { return info_; }

  Result<std::byte*> allocate(Memory where, std::int64_t bytes) override {
    use();
    void* memory = nullptr;
    const auto size = static_cast<std::size_t>(bytes);
    const bool device = where == Memory::Device;
    const cudaError_t status = device ? cudaMalloc(&memory, size) : cudaMallocHost(&memory, size);
    if (status == cudaSuccess) return static_cast<std::byte*>(memory);
    return error_of(status, std::string(device ? "cudaMalloc" : "cudaMallocHost") + " of " +
                                std::to_string(bytes) + " B on " + info_.name);
  }
  void release(Memory where, std::byte* memory) override {
    use();
    where == Memory::Device ? cudaFree(memory) : cudaFreeHost(memory);
  }
  Result<StreamHandle> create_stream(Priority priority) override {
    use();
    cudaStream_t stream = nullptr;
    const cudaError_t status = cudaStreamCreateWithPriority(
        &stream, cudaStreamNonBlocking, priority == Priority::High ? greatest_ : 0);
    if (status != cudaSuccess) return error_of(status, "cudaStreamCreateWithPriority");
    return reinterpret_cast<StreamHandle>(stream);
  }
  void release(StreamHandle stream) override {
    use();
    cudaStreamDestroy(of(stream));
  }
  Result<EventHandle> create_event(Timing timing) override {
    use();
    cudaEvent_t event = nullptr;
    const cudaError_t status = cudaEventCreateWithFlags(
        &event, timing == Timing::On ? cudaEventDefault : cudaEventDisableTiming);
    if (status != cudaSuccess) return error_of(status, "cudaEventCreate");
    return reinterpret_cast<EventHandle>(event);
  }
  void release(EventHandle event) override {
    use();
    cudaEventDestroy(of(event));
  }

  Result<void> copy(StreamHandle stream, std::byte* to, const std::byte* from,
                    std::int64_t bytes) override {
    use();
    return check(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, of(stream)),
        "cudaMemcpyAsync");
  }
  Result<void> fill(StreamHandle stream, std::byte* to, std::uint8_t value,
                    std::int64_t bytes) override {
    use();
    return check(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), of(stream)),
                 "cudaMemsetAsync");
  }
  Result<void> run_on_host(StreamHandle stream, std::function<void()> work) override {
    use();
    auto held = std::make_unique<std::function<void()>>(std::move(work));
    const auto run = [](void* data) {
      const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(data));
      (*own)();
    };
    const cudaError_t status = cudaLaunchHostFunc(of(stream), run, held.get());
    if (status == cudaSuccess) static_cast<void>(held.release());  // its run() takes it
    return check(status, "cudaLaunchHostFunc");
  }
  Result<void> record(EventHandle event, StreamHandle stream) override {
    use();
    return check(cudaEventRecord(of(event), of(stream)), "cudaEventRecord");
  }
  Result<void> wait(StreamHandle stream, EventHandle event) override {
    use();
    return check(cudaStreamWaitEvent(of(stream), of(event), 0), "cudaStreamWaitEvent");
  }
  Result<void> begin_capture(StreamHandle origin) override {
    use();
    // ThreadLocal, so that the threads of other ranks may do anything meanwhile.
    return check(cudaStreamBeginCapture(of(origin), cudaStreamCaptureModeThreadLocal),
                 "cudaStreamBeginCapture");
  }
  Result<GraphHandle> end_capture(StreamHandle origin) override {
    use();
    cudaGraph_t graph = nullptr;
    if (const cudaError_t status = cudaStreamEndCapture(of(origin), &graph);
        status != cudaSuccess) {
      return error_of(status, "cudaStreamEndCapture");
    }
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    if (status != cudaSuccess) return error_of(status, "cudaGraphInstantiate");
    return reinterpret_cast<GraphHandle>(executable);
  }
  Result<void> launch(StreamHandle stream, GraphHandle graph) override {
    use();
    return check(cudaGraphLaunch(of(graph), of(stream)), "cudaGraphLaunch");
  }
  void release(GraphHandle graph) override {
    use();
    cudaGraphExecDestroy(of(graph));
  }
  Result<bool> idle(StreamHandle stream) override {
    use();
    const cudaError_t status = cudaStreamQuery(of(stream));
    if (status == cudaSuccess) return true;
    if (status != cudaErrorNotReady) return error_of(status, "cudaStreamQuery");
    static_cast<void>(cudaGetLastError());  // clears it, or the next launch would find it
    return false;
  }
  Result<void> synchronize(StreamHandle stream) override {
    use();
    return check(cudaStreamSynchronize(of(stream)), "cudaStreamSynchronize");
  }
  Result<Seconds> elapsed(EventHandle from, EventHandle to) override {
    use();
    float milliseconds = 0;
    const cudaError_t status = cudaEventElapsedTime(&milliseconds, of(from), of(to));
    if (status != cudaSuccess) return error_of(status, "cudaEventElapsedTime");
    return Seconds{1e-3 * static_cast<double>(milliseconds)};
  }

  Result<void> use_cudnn() override {
    if (cudnn_) return {};
    use();
    auto opened = CudnnLibrary::open();
    if (!opened) return opened.error();
    cudnn_ = std::move(*opened);
    return {};
  }
  bool supports(const Kernel& kernel) const override { return gpu::registry().supports(kernel); }
  std::int64_t scratch_bytes(const Kernel& kernel) const override {
    use();
    const std::int64_t own =
        own_scratch(kernel) +
        (uses_multiplier(kernel.kind) ? Multiplier::kWorkspaceBytes : std::int64_t{0});
    return cudnn_ ? std::max(own, cudnn_->workspace_bytes(kernel).value_or(0)) : own;
  }
  Result<void> launch(StreamHandle stream, const KernelCall& call) override {
    use();
    if (cudnn_) {
      const auto done = cudnn_->launch(call, stream, call.scratch);
      if (!done) return done.error();
      if (*done) return {};
    }
    const bool multiplies = uses_multiplier(call.kernel->kind);
    gpu::Queue queue(stream, multiplies ? &multiplier_ : nullptr,
                     multiplies ? call.scratch + own_scratch(*call.kernel) : nullptr);
    gpu::registry()[call.kernel->kind].launch(call, queue);
    return queue.status();
  }
  Result<bool> launch_fused(StreamHandle stream, const KernelCall& product,
                            const KernelCall& next) override {
    use();
    return multiplier_.multiply(product, &next, {}, stream,
                                product.scratch + own_scratch(*product.kernel));
  }
  Result<void> add_in_order(StreamHandle stream, DType dtype, std::int64_t elements,
                            std::span<const std::byte* const> sources,
                            std::span<std::byte* const> targets, bool largest) override {
    use();
    if (sources.size() > gpu::kMaxSummands) {
      return Error{ErrorKind::Unsupported,
                   std::to_string(sources.size()) + " logical ranks in one sum; the most is " +
                       std::to_string(gpu::kMaxSummands),
                   std::nullopt};
    }
    gpu::Queue queue(stream, nullptr, nullptr);
    gpu::add_in_order(dtype, elements, sources, targets, largest, queue);
    return queue.status();
  }
  Result<void> exchange_rows(StreamHandle stream, const RowExchange& exchange) override {
    use();
    gpu::Queue queue(stream, nullptr, nullptr);
    gpu::exchange_rows(exchange, queue);
    return queue.status();
  }

 private:
  /// The scratch memory that the kernel itself needs; the library's workspace lies after it.
  static std::int64_t own_scratch(const Kernel& kernel) {
    return (gpu::registry().scratch_bytes(kernel) + 255) / 256 * 256;
  }
  bool uses_multiplier(KernelKind kind) const {
    return multiplier_.found() && gpu::registry()[kind].multiplies;
  }

  int ordinal_;
  int greatest_ = 0;
  GpuInfo info_;
  Multiplier multiplier_;
  std::unique_ptr<CudnnLibrary> cudnn_;  // null unless use_cudnn() was called
};

}  // namespace

Result<std::vector<std::unique_ptr<Driver>>> open_gpus() {
  // This has to be set before the first call. A rank has more streams than the default 8 hardware
  // queues, and streams that share a queue would wait for each other.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    return Error{ErrorKind::Device,
                 std::string("no GPU to run on: ") + cudaGetErrorString(status) +
                     " (the driver must support CUDA " + std::to_string(CUDART_VERSION / 1000) +
                     "." + std::to_string(CUDART_VERSION % 1000 / 10) + ")",
                 std::nullopt};
  }
  std::vector<std::unique_ptr<Driver>> gpus;
  std::string passed_over;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t asked = cudaGetDeviceProperties(&properties, i); asked != cudaSuccess) {
      return error_of(asked, "cudaGetDeviceProperties");
    }
    cudaFuncAttributes attributes{};
    choose(i);
    // This binary has no code for the GPU if the empty kernel cannot be found.
    if (cudaFuncGetAttributes(&attributes, nothing) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      passed_over += (passed_over.empty() ? "" : ", ") + std::string(properties.name);
      continue;
    }
    gpus.push_back(std::make_unique<GpuDriver>(i, properties));
  }
  if (gpus.empty()) {
    return Error{
        ErrorKind::Device,
        "no GPU to run on" + (passed_over.empty() ? ""
                                                  : ": this binary has no code for " + passed_over +
                                                        " (LOCKSTEP_CUDA_ARCHITECTURES)"),
        std::nullopt};
  }
  return Result<std::vector<std::unique_ptr<Driver>>>(std::move(gpus));
}

void make_current(const Driver& gpu) { static_cast<const GpuDriver&>(gpu).use(); }

}  // namespace lockstep::cuda
