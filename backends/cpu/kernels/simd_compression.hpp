// Values in a few bits, and bases of low-rank products. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_float8.hpp"
#include "core/base/basis.hpp"
#include "core/base/block_codes.hpp"

namespace lockstep::cpu {
namespace {

/// Calls body(part, begin, end) for every block of `parts` parts of n elements, blocks being of
/// `block`.
template <class Body>
void for_blocks(const KernelArgs& args, int64_t n, int64_t parts, int64_t block, const Body& body) {
  const int64_t blocks = (n + block - 1) / block;
  parallel(*args.team, parts * blocks, row_grain(block), [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const int64_t begin = b % blocks * block;
      body(b / blocks, begin, least(n, begin + block));
    }
  });
}

template <class T>
void run_to_codes(const KernelArgs& args) {
  const int64_t n = args.dims[0], parts = args.dims[1], targets = args.dims[2];
  const int64_t block = args.dims[3], blocks = (n + block - 1) / block;
  const int bits = static_cast<int>(args.dims[4]);
  const int64_t bytes = bytes_of_codes(n, block, bits), used = 4 * blocks + (n * bits + 7) / 8;
  const T* const x = input<T>(args, 0);
  auto* const y = reinterpret_cast<uint8_t*>(args.out[0]);
  for_blocks(args, n, parts, block, [&](int64_t place, int64_t begin, int64_t end) {
    const T* const values = x + part_of_values(place, parts, targets) * n;
    uint8_t* const to = y + place * bytes;
    T largest = 0;
    bool finite = true;
    for (int64_t i = begin; i < end; ++i) {
      const T size = values[i] < 0 ? -values[i] : values[i];
      finite &= size <= kLargestFinite<T>;
      largest = size > largest ? size : largest;
    }
    const float scale = finite ? scale_of_block(largest, bits) : __builtin_inff();
    __builtin_memcpy(to + 4 * (begin / block), &scale, sizeof scale);
    for (int64_t i = begin; i < end; ++i) {
      set_code(to + 4 * blocks, i, bits, block_code(values[i], scale, bits));
    }
    if (end < n) return;
    if (bits == 4 && n % 2 == 1) set_code(to + 4 * blocks, n, bits, 0);
    for (int64_t i = used; i < bytes; ++i) to[i] = 0;
  });
}

template <class T>
void run_from_codes(const KernelArgs& args) {
  const int64_t n = args.dims[0], parts = args.dims[1], block = args.dims[2];
  const int bits = static_cast<int>(args.dims[3]);
  const int64_t bytes = bytes_of_codes(n, block, bits), blocks = (n + block - 1) / block;
  const auto* const y = reinterpret_cast<const uint8_t*>(args.in[0]);
  T* const x = output<T>(args, 0);
  const int64_t each = parts / args.dims[5];
  for_blocks(args, n, each, block, [&](int64_t part, int64_t begin, int64_t end) {
    T* const to = x + part * n;
    for (int64_t p = part; p < parts; p += each) {
      const uint8_t* const from = y + p * bytes;
      float scale;
      __builtin_memcpy(&scale, from + 4 * (begin / block), sizeof scale);
      for (int64_t i = begin; i < end; ++i) {
        const T value = T(code_at(from + 4 * blocks, i, bits)) * T(scale);
        to[i] = p > part ? to[i] + value : value;
      }
    }
  });
}

/// Sums are taken in double, on one thread: a basis has few columns.
template <class T>
void run_orthonormalize(const KernelArgs& args) {
  const int64_t rows = args.dims[0], cols = args.dims[1];
  T* const a = output<T>(args, 0);
  const auto dot = [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += double(a[r * cols + i]) * double(a[r * cols + j]);
    return sum;
  };
  const auto take_out = [&](int64_t j) {
    const double before = __builtin_sqrt(dot(j, j));
    for (int64_t i = 0; i < j; ++i) {
      const T share = static_cast<T>(dot(i, j));
      for (int64_t r = 0; r < rows; ++r) a[r * cols + j] -= share * a[r * cols + i];
    }
    const double left = __builtin_sqrt(dot(j, j));
    const bool kept = left > args.scalars[0] * before;
    const T factor = kept ? static_cast<T>(1 / left) : T(0);
    for (int64_t r = 0; r < rows; ++r) a[r * cols + j] = kept ? a[r * cols + j] * factor : T(0);
    return kept;
  };
  for (int64_t j = 0; j < cols; ++j) {
    if (take_out(j) || args.scalars[1] == 0) continue;
    for (int64_t r = 0; r < rows; ++r) a[r * cols + j] = T(fixed_direction(r, j));
    take_out(j);
  }
}

}  // namespace
}  // namespace lockstep::cpu
