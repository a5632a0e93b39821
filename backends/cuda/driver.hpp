// Driver: the calls that this backend makes to one GPU. The real one is backends/cuda/toolkit;
// tests record the calls, or run the kernels' source on the CPU. No CUDA header is needed to use
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/result.hpp"
#include "core/ir/kernels/kernel.hpp"
#include "core/run/device.hpp"

namespace lockstep::cuda {

using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using GraphHandle = struct GraphTag*;

struct GpuInfo {
  std::string name;
  Bytes memory;
  int multiprocessors = 0;
  int capability = 0;  // 90: compute capability 9.0
};

enum class Memory : std::uint8_t { Device, PinnedHost };
enum class Priority : std::uint8_t { Normal, High };
enum class Timing : std::uint8_t { Off, On };  // of an event: can it say when it was reached

/// A kernel with its operands resolved to addresses (null: absent), aligned to their element size.
struct KernelCall {
  const Kernel* kernel = nullptr;
  std::array<std::byte*, kMaxOperands> in{}, out{};
  std::byte* scratch = nullptr;  // Driver::scratch_bytes(kernel), aligned to 256 bytes
  StepContext context;
  const StepContext* context_at = nullptr;  // in the GPU's memory, read as the kernel runs, instead
};

/// What the host computes for a rank: kernels on buffers in its memory, for Stream::Host.
struct HostCompute {
  virtual ~HostCompute() = default;
  virtual bool supports(const Kernel& kernel) const = 0;
  /// `buffers`: of the function's formals. From one thread at a time.
  virtual void run(const Kernel& kernel, std::span<std::byte* const> buffers,
                   const StepContext& context) = 0;
};

/// One GPU. All calls may come from any thread; only synchronize() and elapsed() block, besides
/// those that create and release. Errors are of kind Device and name the call; OutOfMemory if there
/// is not enough memory.
struct Driver {
  virtual ~Driver() = default;
  virtual const GpuInfo& info() const = 0;

  virtual Result<std::byte*> allocate(Memory where, std::int64_t bytes) = 0;
  virtual void release(Memory where, std::byte* memory) = 0;
  virtual Result<StreamHandle> create_stream(Priority priority) = 0;
  virtual void release(StreamHandle stream) = 0;
  virtual Result<EventHandle> create_event(Timing timing) = 0;
  virtual void release(EventHandle event) = 0;

  /// In stream order. Host memory of a copy is pinned.
  virtual Result<void> copy(StreamHandle stream, std::byte* to, const std::byte* from,
                            std::int64_t bytes) = 0;
  virtual Result<void> fill(StreamHandle stream, std::byte* to, std::uint8_t value,
                            std::int64_t bytes) = 0;
  /// `work` runs on the host, in stream order; it calls nothing of the driver.
  virtual Result<void> run_on_host(StreamHandle stream, std::function<void()> work) = 0;
  virtual Result<void> record(EventHandle event, StreamHandle stream) = 0;
  virtual Result<void> wait(StreamHandle stream, EventHandle event) = 0;  // the stream waits

  /// What is given to `origin`, and to streams that come to wait for it, becomes a graph instead of
  /// running, until end_capture: from one thread, without allocations, and `origin` waits for each
  /// of those streams in the end. Nothing is captured any more after end_capture, also when it
  /// fails.
  virtual Result<void> begin_capture(StreamHandle origin) = 0;
  virtual Result<GraphHandle> end_capture(StreamHandle origin) = 0;
  virtual Result<void> launch(StreamHandle stream, GraphHandle graph) = 0;
  virtual void release(GraphHandle graph) = 0;

  virtual Result<bool> idle(StreamHandle stream) = 0;
  virtual Result<void> synchronize(StreamHandle stream) = 0;
  /// Time between two timed events that have been reached.
  virtual Result<Seconds> elapsed(EventHandle from, EventHandle to) = 0;

  /// From now on attention and convolutions by cuDNN, where it has an engine for them. Error
  /// Unsupported: it is not here, and why.
  virtual Result<void> use_cudnn() {
    return Error{ErrorKind::Unsupported, info().name + " has no cuDNN", std::nullopt};
  }
  /// Kernels. False: no implementation of this kind for these operand types.
  virtual bool supports(const Kernel& kernel) const = 0;
  virtual std::int64_t scratch_bytes(const Kernel& kernel) const = 0;
  virtual Result<void> launch(StreamHandle stream, const KernelCall& call) = 0;
  /// A matrix product with the kernel that follows it in its epilogue (backends/cuda/fusion.hpp).
  /// False: not for these two; nothing is launched.
  virtual Result<bool> launch_fused(StreamHandle, const KernelCall& /*product*/,
                                    const KernelCall& /*next*/) {
    return false;
  }
  /// targets[…][i] = sources[0][i] + sources[1][i] + …, in this order, in float32 for bfloat16 and
  /// otherwise in the type itself, rounded once; a target may be a source.
  virtual Result<void> add_in_order(StreamHandle stream, DType dtype, std::int64_t elements,
                                    std::span<const std::byte* const> sources,
                                    std::span<std::byte* const> targets) = 0;
};

/// Types that add_in_order adds.
constexpr bool can_sum(DType t) {
  return t == DType::F32 || t == DType::F64 || t == DType::BF16 || t == DType::I32;
}

}  // namespace lockstep::cuda
