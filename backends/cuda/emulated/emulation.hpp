// The CUDA language, as far as backends/cuda/kernels uses it, on the CPU: the same kernel sources,
// compiled as C++, run with every thread of a block as a fiber. Threads switch at barriers only, in
// ascending or descending order, so a missing barrier shows as a difference between the two; what a
// GPU would refuse, or leave undefined, is an error. Slow, for small shapes; no CUDA toolkit
// needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "core/base/result.hpp"

namespace lockstep::cuda::emulation {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct Place {
  Dim3 thread{0, 0, 0}, block{0, 0, 0}, block_dim, grid_dim;
};
/// Of the fiber that runs.
const Place& place();

/// As std::source_location, which clang 14 lacks.
struct SourceLine {
  std::string_view file;
  int line = 0;
  static SourceLine current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const SourceLine&) const = default;
};

/// All threads of the block, or of the warp (32 consecutive threads) arrive before one goes on, all
/// at the same place in the source. Threads that have ended count as arrived.
void sync_block(SourceLine at = SourceLine::current());
void sync_warp(SourceLine at = SourceLine::current());

/// Dynamic shared memory of the block, 0xFF at its start.
std::byte* dynamic_shared();

/// Gives `bytes` (at most 64) of the own lane to the others and returns where those of lane 0 lie;
/// lane i's are 64 × i further. Valid until end_exchange(). All 32 lanes take part.
const std::byte* begin_exchange(const void* own, std::size_t bytes,
                                SourceLine at = SourceLine::current());
void end_exchange();
int lane();

/// Asynchronous copies to dynamic shared memory: `to` is poisoned at once, and written when the
/// thread waits for the group that the copy was committed with. `from`: null for zeros.
void copy_later(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(std::size_t pending);

/// Ends the grid with an error if a thread accesses `bytes` at once at such an address.
void misaligned(const void* address, std::size_t bytes);
inline void require_aligned(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) misaligned(address, bytes);
}

enum class Order : std::uint8_t { Ascending, Descending };
void set_order(Order order);
/// Whether blocks run, or launches are only checked: those of large shapes, too.
void set_running(bool running);
void clear(void* memory, std::size_t bytes);

/// Runs `body` for every thread of every block; blocks one after the other. Thread-safe. An error:
/// a launch beyond the limits of a GPU (compute capability 8.0 and 9.0), or what a thread does
/// wrong, at which the grid ends.
Result<void> run_grid(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                      const std::function<void()>& body);

}  // namespace lockstep::cuda::emulation

// The language's own words, not ours.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define threadIdx (::lockstep::cuda::emulation::place().thread)
#define blockIdx (::lockstep::cuda::emulation::place().block)
#define blockDim (::lockstep::cuda::emulation::place().block_dim)
#define gridDim (::lockstep::cuda::emulation::place().grid_dim)
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
