// Values in a few bits, and bases of low-rank products.
#include "backends/cuda/kernels/registry.hpp"
#include "core/base/basis.hpp"
#include "core/base/block_codes.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

constexpr int kThreads = 256;

/// Parts of n values, and of their codes.
struct Parts {
  int64_t n, parts, block, blocks, bytes;
  int bits;
  static Parts of(int64_t n, int64_t parts, int64_t block, int bits) {
    return {n, parts, block, (n + block - 1) / block, bytes_of_codes(n, block, bits), bits};
  }
};

/// Block (b, place) of the grid makes block b of that part. A thread makes whole bytes.
template <class T>
__global__ void code_block(const T* x, std::uint8_t* y, Parts p, int64_t targets) {
  using A = Acc<T>;
  const int64_t place = blockIdx.y, begin = blockIdx.x * p.block;
  const int64_t end = smaller(p.n, begin + p.block);
  const T* const values = x + part_of_values(place, p.parts, targets) * p.n;
  std::uint8_t* const to = y + place * p.bytes;
  A largest = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const A v = value(values[i]), size = v < 0 ? -v : v;
    if (!(size <= largest)) largest = size < infinity<A>() ? size : infinity<A>();
  }
  const float scale = scale_of_block(block_max<kThreads>(largest), p.bits);
  if (threadIdx.x == 0) reinterpret_cast<float*>(to)[blockIdx.x] = scale;
  std::uint8_t* const codes = to + 4 * p.blocks;
  const int step = 8 / p.bits;  // values of a byte
  for (int64_t i = begin + static_cast<int64_t>(threadIdx.x) * step; i < end;
       i += static_cast<int64_t>(kThreads) * step) {
    for (int j = 0; j < step; ++j) {
      const bool inside = i + j < end;
      set_code(codes, i + j, p.bits,
               inside ? block_code<A>(value(values[i + j]), scale, p.bits) : 0);
    }
  }
  if (end < p.n || threadIdx.x != 0) return;
  for (int64_t i = 4 * p.blocks + (p.n * p.bits + 7) / 8; i < p.bytes; ++i) to[i] = 0;
}

/// The threads count values of the result, which has `each` parts.
template <class T>
__global__ void value_of_codes(const std::uint8_t* y, T* x, Parts p, int64_t each) {
  using A = Acc<T>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= p.n * each) return;
  const int64_t part = at / p.n, i = at % p.n;
  A sum = 0;
  for (int64_t from = part; from < p.parts; from += each) {
    const std::uint8_t* const codes = y + from * p.bytes;
    const A scale = reinterpret_cast<const float*>(codes)[i / p.block];
    const A value = static_cast<A>(code_at(codes + 4 * p.blocks, i, p.bits)) * scale;
    sum = from == part ? value : sum + value;
  }
  put(x[at], sum);
}

void to_codes(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const Parts p = Parts::of(d[0], d[1], d[3], static_cast<int>(d[4]));
  if (p.n == 0) return;
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({static_cast<unsigned>(p.blocks), static_cast<unsigned>(p.parts)}, {kThreads}, 0,
                 code_block<T>, input<const T>(call, 0), output<std::uint8_t>(call, 0), p, d[2]);
  });
}

void from_codes(const KernelCall& call, Queue& queue) {
  const auto& d = call.kernel->dims;
  const Parts p = Parts::of(d[0], d[1], d[2], static_cast<int>(d[3]));
  const int64_t each = p.parts / d[5];
  if (p.n == 0) return;
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({blocks_of(p.n * each, kThreads)}, {kThreads}, 0, value_of_codes<T>,
                 input<const std::uint8_t>(call, 0), output<T>(call, 0), p, each);
  });
}

/// One block makes all columns, one after the other.
template <class T>
__global__ void make_basis(T* a, int64_t rows, int64_t cols, Acc<T> eps, bool fill) {
  using A = Acc<T>;
  const auto dot = [&](int64_t i, int64_t j) {
    A sum = 0;
    for (int64_t r = threadIdx.x; r < rows; r += kThreads) {
      sum += static_cast<A>(value(a[r * cols + i])) * static_cast<A>(value(a[r * cols + j]));
    }
    return block_sum<kThreads>(sum);
  };
  const auto take_out = [&](int64_t j) {
    const A before = sqrt(dot(j, j));
    for (int64_t i = 0; i < j; ++i) {
      const A share = dot(i, j);  // a thread reads and writes rows of its own alone
      for (int64_t r = threadIdx.x; r < rows; r += kThreads) {
        const A left = value(a[r * cols + j]);
        put(a[r * cols + j], left - share * static_cast<A>(value(a[r * cols + i])));
      }
    }
    const A left = sqrt(dot(j, j));
    const bool kept = left > eps * before;
    for (int64_t r = threadIdx.x; r < rows; r += kThreads) {
      put(a[r * cols + j], kept ? static_cast<A>(value(a[r * cols + j])) / left : A(0));
    }
    return kept;
  };
  for (int64_t j = 0; j < cols; ++j) {
    if (take_out(j) || !fill) continue;
    for (int64_t r = threadIdx.x; r < rows; r += kThreads) {
      put(a[r * cols + j], static_cast<A>(fixed_direction(r, j)));
    }
    take_out(j);
  }
}

void orthonormalize(const KernelCall& call, Queue& queue) {
  for_type(call.kernel->dtype, [&](auto t) {
    using T = decltype(t);
    queue.launch({1}, {kThreads}, 0, make_basis<T>, output<T>(call, 0), call.kernel->dims[0],
                 call.kernel->dims[1], static_cast<Acc<T>>(call.kernel->scalars[0]),
                 call.kernel->scalars[1] != 0);
  });
}

}  // namespace

void add_compression(Registry& rows) {
  rows[KernelKind::ToCodes] = {to_codes};
  rows[KernelKind::FromCodes] = {from_codes};
  rows[KernelKind::Orthonormalize] = {orthonormalize};
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
