// What kernels are written with: element types, packs of them, primitives of warps and blocks, and
// launches. The sources of this folder are CUDA for nvcc, and C++ for any other compiler; their
// threads are then fibers (backends/cuda/emulated).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/products.hpp"
#include "core/base/dtype.hpp"
#include "core/base/float16.hpp"

// Each build has a namespace of its own, because both may be linked into one binary.
#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define LOCKSTEP_TARGET gpu
#define LOCKSTEP_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#define LOCKSTEP_UNROLL _Pragma("unroll")
#else
#define LOCKSTEP_TARGET emulated
#include <cmath>
#include <cstring>

#include "backends/cuda/emulated/emulation.hpp"
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses
#define LOCKSTEP_DYNAMIC_SHARED(name) \
  auto* name = reinterpret_cast<unsigned char*>(::lockstep::cuda::emulation::dynamic_shared())
// NOLINTEND(bugprone-macro-parentheses)
#define LOCKSTEP_UNROLL
#endif

namespace lockstep::cuda::LOCKSTEP_TARGET {

using std::int64_t;

// ---------------------------------------------------------------- element types

/// bfloat16: the upper half of a float32.
struct BF16 {
  std::uint16_t bits;
};

__host__ __device__ __forceinline__ float to_float(BF16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
/// Rounds to nearest, ties to even.
__host__ __device__ __forceinline__ BF16 to_bf16(float x) {
#if defined(__CUDA_ARCH__)
  BF16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};  // as the hardware gives NaN
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
#endif
}
/// Two bfloat16 values as tensor cores take them, with `low` in the lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return to_bf16(low).bits | static_cast<std::uint32_t>(to_bf16(high).bits) << 16;
#endif
}

/// IEEE 754's binary16.
struct F16 {
  std::uint16_t bits;
};

__host__ __device__ __forceinline__ float to_float(F16 x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return float16_value(x.bits);
#endif
}
/// Rounds to nearest, ties to even; what is too large becomes infinite.
__host__ __device__ __forceinline__ F16 to_f16(float x) {
#if defined(__CUDA_ARCH__)
  F16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  return {float16_bits(x)};
#endif
}

/// The type in which elements of type T are computed.
template <class T>
struct Computed {
  using Type = float;
};
template <>
struct Computed<double> {
  using Type = double;
};
template <class T>
using Acc = typename Computed<T>::Type;

__device__ __forceinline__ float value(float x) { return x; }
__device__ __forceinline__ double value(double x) { return x; }
__device__ __forceinline__ float value(BF16 x) { return to_float(x); }
__device__ __forceinline__ float value(F16 x) { return to_float(x); }
__device__ __forceinline__ std::int32_t value(std::int32_t x) { return x; }
__device__ __forceinline__ void put(float& to, float x) { to = x; }
__device__ __forceinline__ void put(double& to, double x) { to = x; }
__device__ __forceinline__ void put(BF16& to, float x) { to = to_bf16(x); }
__device__ __forceinline__ void put(F16& to, float x) { to = to_f16(x); }
__device__ __forceinline__ void put(std::int32_t& to, std::int32_t x) { to = x; }

/// 2^x.
__device__ __forceinline__ float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}
/// exp(x); on a GPU with a relative error of about 2^-22 (1 + |x| / 4), in two instructions instead
/// of the eight of expf, with which kernels that call it for every element would be slower than the
/// memory.
__device__ __forceinline__ float exponential(float x) {
  return power_of_two(x * 1.44269504088896340736f);
}
__device__ __forceinline__ double exponential(double x) { return exp(x); }

__device__ __forceinline__ float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ __forceinline__ double hyperbolic_tangent(double x) { return tanh(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
template <class T>
__host__ __device__ __forceinline__ T greater(T a, T b) {
  return a > b ? a : b;
}
template <class T>
__host__ __device__ __forceinline__ T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
__device__ __forceinline__ T infinity() {
  return static_cast<T>(__builtin_huge_val());
}

/// Calls f(first), f(first + step), … below `last`, in order. Four calls at a time have no branch
/// between them, so that their reads are under way together.
template <class F>
__device__ __forceinline__ void by_fours(int64_t first, int64_t last, int64_t step, const F& f) {
  int64_t i = first;
  for (; i + 3 * step < last; i += 4 * step) {
    LOCKSTEP_UNROLL
    for (int k = 0; k < 4; ++k) f(i + k * step);
  }
  for (; i < last; i += step) f(i);
}

// ---------------------------------------------------------------- memory

/// N values in registers. If N > 1 they are loaded and stored as one word, and the address has to
/// be aligned to it.
template <class A, int N>
struct Values {
  A v[N];
  __device__ __forceinline__ A& operator[](int i) { return v[i]; }
  __device__ __forceinline__ A operator[](int i) const { return v[i]; }
};
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

#if defined(__CUDACC__)
__device__ __forceinline__ void require_aligned(const void*, std::size_t) {}
#else
using emulation::require_aligned;
#endif

template <int N, class T>
__device__ __forceinline__ Values<Acc<T>, N> load(const T* from) {
  require_aligned(from, sizeof(Pack<T, N>));
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
  Values<Acc<T>, N> values;
  LOCKSTEP_UNROLL
  for (int i = 0; i < N; ++i) values.v[i] = value(pack.v[i]);
  return values;
}
template <int N, class T>
__device__ __forceinline__ void store(T* to, const Values<Acc<T>, N>& values) {
  require_aligned(to, sizeof(Pack<T, N>));
  Pack<T, N> pack;
  LOCKSTEP_UNROLL
  for (int i = 0; i < N; ++i) put(pack.v[i], values.v[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// How many elements of T a word of 16 bytes has, or N if that is less.
template <class T, int N>
inline constexpr int kInWord = static_cast<int>(N * sizeof(T) > 16 ? 16 / sizeof(T) : N);

/// Loads N values that lie in memory as T, in as many words as that takes, and converts them to A.
template <int N, class A, class T>
__device__ __forceinline__ Values<A, N> load_words(const T* from) {
  constexpr int kPart = kInWord<T, N>;
  Values<A, N> values;
  LOCKSTEP_UNROLL
  for (int i = 0; i < N; i += kPart) {
    const auto part = load<kPart>(from + i);
    LOCKSTEP_UNROLL
    for (int j = 0; j < kPart; ++j) values.v[i + j] = static_cast<A>(part.v[j]);
  }
  return values;
}
template <int N, class A, class T>
__device__ __forceinline__ void store_words(T* to, const Values<A, N>& values) {
  constexpr int kPart = kInWord<T, N>;
  LOCKSTEP_UNROLL
  for (int i = 0; i < N; i += kPart) {
    Values<Acc<T>, kPart> part;
    LOCKSTEP_UNROLL
    for (int j = 0; j < kPart; ++j) part.v[j] = static_cast<Acc<T>>(values.v[i + j]);
    store<kPart>(to + i, part);
  }
}

/// Elements whose type is known at run time only, for operands that may be of another type than the
/// kernel's own (statistics, gradients, scalars). All threads take the same branch.
struct Ref {
  std::byte* at = nullptr;
  DType type = DType::F32;
  __host__ __device__ explicit operator bool() const { return at != nullptr; }
  template <class A>
  __device__ __forceinline__ A get(int64_t i) const {
    switch (type) {
      case DType::F64:
        return static_cast<A>(reinterpret_cast<const double*>(at)[i]);
      case DType::BF16:
        return static_cast<A>(to_float(reinterpret_cast<const BF16*>(at)[i]));
      case DType::F16:
        return static_cast<A>(to_float(reinterpret_cast<const F16*>(at)[i]));
      default:
        return static_cast<A>(reinterpret_cast<const float*>(at)[i]);
    }
  }
  template <class A>
  __device__ __forceinline__ void set(int64_t i, A x) const {
    switch (type) {
      case DType::F64:
        reinterpret_cast<double*>(at)[i] = static_cast<double>(x);
        break;
      case DType::BF16:
        reinterpret_cast<BF16*>(at)[i] = to_bf16(static_cast<float>(x));
        break;
      case DType::F16:
        reinterpret_cast<F16*>(at)[i] = to_f16(static_cast<float>(x));
        break;
      default:
        reinterpret_cast<float*>(at)[i] = static_cast<float>(x);
    }
  }
  /// Reads N elements from i on, a multiple of N, as load_words() does.
  template <int N, class A>
  __device__ __forceinline__ Values<A, N> get_words(int64_t i) const {
    switch (type) {
      case DType::F64:
        return load_words<N, A>(reinterpret_cast<const double*>(at) + i);
      case DType::BF16:
        return load_words<N, A>(reinterpret_cast<const BF16*>(at) + i);
      case DType::F16:
        return load_words<N, A>(reinterpret_cast<const F16*>(at) + i);
      default:
        return load_words<N, A>(reinterpret_cast<const float*>(at) + i);
    }
  }
  template <int N, class A>
  __device__ __forceinline__ void set_words(int64_t i, const Values<A, N>& x) const {
    switch (type) {
      case DType::F64:
        return store_words(reinterpret_cast<double*>(at) + i, x);
      case DType::BF16:
        return store_words(reinterpret_cast<BF16*>(at) + i, x);
      case DType::F16:
        return store_words(reinterpret_cast<F16*>(at) + i, x);
      default:
        return store_words(reinterpret_cast<float*>(at) + i, x);
    }
  }
};

// ---------------------------------------------------------------- threads

inline constexpr int kWarp = 32;

#if defined(__CUDACC__)
using Grid = dim3;
__device__ __forceinline__ void sync_block() { __syncthreads(); }
__device__ __forceinline__ void sync_warp() { __syncwarp(); }
template <class A>
__device__ __forceinline__ A shuffle_xor(A x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
__device__ __forceinline__ int lane_of_warp() {
  return static_cast<int>((threadIdx.x + threadIdx.y * blockDim.x) % kWarp);
}
#else
using Grid = emulation::Dim3;
using emulation::sync_block;
using emulation::sync_warp;
template <class A>
A shuffle_xor(A x, int mask) {
  const std::byte* lanes = emulation::begin_exchange(&x, sizeof x);
  A other;
  std::memcpy(&other, lanes + 64 * (emulation::lane() ^ mask), sizeof other);
  emulation::end_exchange();
  return other;
}
inline int lane_of_warp() { return emulation::lane(); }
#endif

/// The sum over the warp, which every lane gets. All lanes must take part.
template <class A>
__device__ __forceinline__ A warp_sum(A x) {
  LOCKSTEP_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}
template <class A>
__device__ __forceinline__ A warp_max(A x) {
  LOCKSTEP_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x = greater(x, shuffle_xor(x, mask));
  return x;
}

/// The sum over a block of kThreads threads in one dimension, which every thread gets.
template <int kThreads, class A>
__device__ __forceinline__ A block_sum(A x) {
  __shared__ A sums[kThreads / kWarp];
  x = warp_sum(x);
  sync_block();  // the sums of the call before have been read
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = x;
  sync_block();
  A total = sums[0];
  for (int i = 1; i < kThreads / kWarp; ++i) total += sums[i];
  return total;
}
template <int kThreads, class A>
__device__ __forceinline__ A block_max(A x) {
  __shared__ A most[kThreads / kWarp];
  x = warp_max(x);
  sync_block();
  if (threadIdx.x % kWarp == 0) most[threadIdx.x / kWarp] = x;
  sync_block();
  A total = most[0];
  for (int i = 1; i < kThreads / kWarp; ++i) total = greater(total, most[i]);
  return total;
}

// ---------------------------------------------------------------- launches

#if defined(__CUDACC__)
/// Why a call failed. A fault of a kernel shows in whatever call comes next.
inline std::string reason(cudaError_t status) {
  const bool late = status == cudaErrorIllegalAddress || status == cudaErrorMisalignedAddress ||
                    status == cudaErrorIllegalInstruction || status == cudaErrorLaunchFailure;
  return cudaGetErrorString(status) +
         std::string(late ? ", here or in a kernel before (CUDA_LAUNCH_BLOCKING=1 says which)"
                          : "");
}
#endif

/// Launches kernels on a stream, and keeps the first error.
class Queue {
 public:
  Queue() = default;
  /// `products` is null if there is no library; `workspace` is the memory that it asks for.
  Queue(StreamHandle stream, Products* products, std::byte* workspace)
      : stream_(stream), products_(products), workspace_(workspace) {}

  template <class... P, class... A>
  void launch(Grid grid, Grid block, std::size_t shared_bytes, void (*kernel)(P...), A... args) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#if defined(__CUDACC__)
    constexpr std::size_t kWithoutAsking = 48 << 10;
    if (shared_bytes > kWithoutAsking) {
      keep(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shared_bytes)));
    }
    kernel<<<grid, block, shared_bytes, reinterpret_cast<cudaStream_t>(stream_)>>>(
        static_cast<P>(args)...);
    keep(cudaGetLastError());
#else
    const Result<void> ran =
        emulation::run_grid(grid, block, shared_bytes, [&] { kernel(static_cast<P>(args)...); });
    if (!ran) keep(ran.error());
#endif
  }
  /// Sets memory to zero bytes, which are zeros in every type.
  void clear(void* memory, int64_t bytes) {
#if defined(__CUDACC__)
    keep(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes),
                         reinterpret_cast<cudaStream_t>(stream_)));
#else
    emulation::clear(memory, static_cast<std::size_t>(bytes));
#endif
  }
  bool has_products() const { return products_ != nullptr; }
  /// Lets the library compute a product; false if it has no algorithm for it.
  bool multiplied(const KernelCall& call, const Batch& batch) {
    if (products_ == nullptr) return false;
    const Result<bool> done = products_->multiply(call, nullptr, batch, stream_, workspace_);
    if (!done) keep(done.error());
    return !done || *done;
  }
  Result<void> status() const { return error_ ? Result<void>(*error_) : Result<void>(); }

 private:
  void keep(const Error& error) {
    if (!error_) error_ = error;
  }
#if defined(__CUDACC__)
  void keep(cudaError_t error) {
    if (error == cudaSuccess) return;
    keep(Error{ErrorKind::Device, "kernel launch: " + reason(error), std::nullopt});
  }
#endif

  StreamHandle stream_ = nullptr;
  Products* products_ = nullptr;
  std::byte* workspace_ = nullptr;
  std::optional<Error> error_;
};

inline unsigned blocks_of(int64_t n, int64_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
