// Driver: the calls that this backend makes to one GPU. The real driver is in
// backends/cuda/toolkit; tests record the calls, or run the kernels' source on the CPU. No CUDA
// header is needed to use it.
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
  int capability = 0;  // compute capability × 10: 90 for 9.0
};

enum class Memory : std::uint8_t { Device, PinnedHost };
enum class Priority : std::uint8_t { Normal, High };
enum class Timing : std::uint8_t { Off, On };  // whether an event can say when it was reached

/// A kernel with the addresses of its operands, which are aligned to the size of an element; null
/// for an absent operand.
struct KernelCall {
  const Kernel* kernel = nullptr;
  std::array<std::byte*, kMaxOperands> in{}, out{};
  std::byte* scratch = nullptr;  // Driver::scratch_bytes(kernel), aligned to 256 bytes
  StepContext context;
  /// If not null, an address in the GPU's memory, from which the running kernel reads its context
  /// instead.
  const StepContext* context_at = nullptr;
};

/// What the host computes for a rank: kernels on buffers in its memory, for Stream::Host.
struct HostCompute {
  virtual ~HostCompute() = default;
  virtual bool supports(const Kernel& kernel) const = 0;
  /// Runs a kernel; `buffers` are those of the function's formals. Called by one thread at a time.
  virtual void run(const Kernel& kernel, std::span<std::byte* const> buffers,
                   const StepContext& context) = 0;
};

/// An exchange of rows between ranks that share a GPU, by member. Everything that is pointed to is
/// in the GPU's memory.
struct RowExchange {
  static constexpr int kMostMembers = 64;
  int members = 0;
  std::int64_t row_bytes = 0, parts = 0;        // parts: counts for each member
  const std::byte* source[kMostMembers] = {};   // rows for member 0, then for member 1, …
  std::byte* target[kMostMembers] = {};         // rows of member 0, then of member 1, …
  std::int64_t room[kMostMembers] = {};         // how many rows fit into the target
  const std::int32_t* goes[kMostMembers] = {};  // rows of the source by part
};

/// One GPU. Any thread may make any call. Only synchronize(), elapsed() and the calls that create
/// and release block. Errors are of kind Device and name the call, or OutOfMemory if there is not
/// enough memory.
struct Driver {
  virtual ~Driver() = default;
  virtual const GpuInfo& info() const = 0;

  virtual Result<std::byte*> allocate(Memory where, std::int64_t bytes) = 0;
  virtual void release(Memory where, std::byte* memory) = 0;
  virtual Result<StreamHandle> create_stream(Priority priority) = 0;
  virtual void release(StreamHandle stream) = 0;
  virtual Result<EventHandle> create_event(Timing timing) = 0;
  virtual void release(EventHandle event) = 0;

  /// Copies in stream order. If one side is host memory, it must be pinned.
  virtual Result<void> copy(StreamHandle stream, std::byte* to, const std::byte* from,
                            std::int64_t bytes) = 0;
  virtual Result<void> fill(StreamHandle stream, std::byte* to, std::uint8_t value,
                            std::int64_t bytes) = 0;
  /// Runs `work` on the host, in stream order; `work` must not call the driver.
  virtual Result<void> run_on_host(StreamHandle stream, std::function<void()> work) = 0;
  virtual Result<void> record(EventHandle event, StreamHandle stream) = 0;
  virtual Result<void> wait(StreamHandle stream, EventHandle event) = 0;  // the stream waits

  /// Until end_capture(), what is given to `origin`, and to streams that wait for it, does not run
  /// but becomes a graph. All calls have to come from one thread and must not allocate, and in the
  /// end `origin` has to wait for each of those streams. After end_capture() nothing is captured
  /// any more, even if it fails.
  virtual Result<void> begin_capture(StreamHandle origin) = 0;
  virtual Result<GraphHandle> end_capture(StreamHandle origin) = 0;
  virtual Result<void> launch(StreamHandle stream, GraphHandle graph) = 0;
  virtual void release(GraphHandle graph) = 0;

  virtual Result<bool> idle(StreamHandle stream) = 0;
  virtual Result<void> synchronize(StreamHandle stream) = 0;
  /// Time between two timed events that have been reached.
  virtual Result<Seconds> elapsed(EventHandle from, EventHandle to) = 0;

  /// From now on computes attention and convolutions by cuDNN, where it has an engine for them.
  /// Error Unsupported if cuDNN is not available, saying why.
  virtual Result<void> use_cudnn() {
    return Error{ErrorKind::Unsupported, info().name + " has no cuDNN", std::nullopt};
  }
  /// Whether there is an implementation of the kernel's kind for the types of its operands.
  virtual bool supports(const Kernel& kernel) const = 0;
  virtual std::int64_t scratch_bytes(const Kernel& kernel) const = 0;
  virtual Result<void> launch(StreamHandle stream, const KernelCall& call) = 0;
  /// Launches a matrix product with the kernel that follows it in its epilogue
  /// (backends/cuda/fusion.hpp). Returns false, and launches nothing, if that cannot be done for
  /// these two.
  virtual Result<bool> launch_fused(StreamHandle, const KernelCall& /*product*/,
                                    const KernelCall& /*next*/) {
    return false;
  }
  /// Writes sources[0][i] + sources[1][i] + … to every target, for all elements i. Sums are taken
  /// in this order, in float32 for 16-bit types (rounded once) and otherwise in the type itself. A
  /// target may be a source. With `largest`, the largest of them is written instead.
  virtual Result<void> add_in_order(StreamHandle stream, DType dtype, std::int64_t elements,
                                    std::span<const std::byte* const> sources,
                                    std::span<std::byte* const> targets, bool largest) = 0;
  /// Moves the rows that counts say; a member for which too many come gets none.
  virtual Result<void> exchange_rows(StreamHandle stream, const RowExchange& exchange) = 0;
};

/// Whether add_in_order() adds values of this type.
constexpr bool can_sum(DType t) { return t != DType::U8; }

}  // namespace lockstep::cuda
