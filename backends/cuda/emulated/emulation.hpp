// Emulation: the CUDA language on the CPU, as far as backends/cuda/kernels uses it. The same kernel
// sources are compiled as C++ and run with every thread of a block as a fiber. Threads switch at
// barriers only, in ascending or descending order, so that a missing barrier shows as a difference
// between the two orders. What a GPU would refuse, or leave undefined, is an error. The emulation
// is slow, meant for small shapes, and needs no CUDA toolkit.
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
/// The place of the running fiber in its grid.
const Place& place();

/// A replacement for std::source_location, which clang 14 lacks.
struct SourceLine {
  std::string_view file;
  int line = 0;
  static SourceLine current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const SourceLine&) const = default;
};

/// Waits until all threads of the block, or of the warp (32 consecutive threads), have arrived. All
/// must arrive at the same line of the source. Threads that have ended count as arrived.
void sync_block(SourceLine at = SourceLine::current());
void sync_warp(SourceLine at = SourceLine::current());

/// Dynamic shared memory of the block, filled with 0xFF bytes when the block starts.
std::byte* dynamic_shared();

/// Gives `bytes` (at most 64) of the own lane to the other lanes. Returns where those of lane 0
/// lie; those of lane i lie 64 × i bytes further. The result is valid until end_exchange(). All 32
/// lanes must take part.
const std::byte* begin_exchange(const void* own, std::size_t bytes,
                                SourceLine at = SourceLine::current());
void end_exchange();
int lane();

/// An asynchronous copy to dynamic shared memory, of zeros if `from` is null. `to` is poisoned at
/// once, and written when the thread waits for the group with which the copy was committed.
void copy_later(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(std::size_t pending);

/// Ends the grid with an error, because a thread accesses `bytes` at once at an address that is not
/// aligned to them.
void misaligned(const void* address, std::size_t bytes);
inline void require_aligned(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) misaligned(address, bytes);
}

enum class Order : std::uint8_t { Ascending, Descending };
void set_order(Order order);
/// Sets whether blocks run. If not, launches are only checked, so that large shapes can be, too.
void set_running(bool running);
void clear(void* memory, std::size_t bytes);

/// Runs `body` for every thread of every block, one block after the other. Thread-safe. Errors: a
/// launch beyond the limits of a GPU (of compute capability 8.0 and 9.0), or a fault of a thread,
/// which ends the grid.
Result<void> run_grid(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                      const std::function<void()>& body);

}  // namespace lockstep::cuda::emulation

// These names are CUDA's.
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
