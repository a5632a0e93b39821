// Products in 8 bits of as many rows of each expert as counts say. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_experts.hpp"
#include "backends/cpu/kernels/simd_float8.hpp"

namespace lockstep::cpu {
namespace {

/// Rounds the rows of one part, x [rows, cols], to lines of `step` codes, of which a part has whole
/// blocks: what has no row is zero. Returns the largest magnitude. A scale that is not null is that
/// of all blocks.
template <class T>
T quantize_columns(ThreadTeam& team, const T* x, int64_t rows, int64_t cols, int64_t along,
                   int mantissa, const T* known, int64_t step, uint8_t* codes, T* scales) {
  constexpr int64_t kStrip = 64;  // columns that are read together
  const int64_t blocks = (rows + along - 1) / along, strips = (cols + kStrip - 1) / kStrip;
  T* const of_strips =
      static_cast<T*>(scratch(Scratch::Tiles, static_cast<size_t>(strips) * sizeof(T)));
  parallel(team, cols, kStrip, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin; c0 < end; c0 += kStrip) {
      const int64_t strip = least(kStrip, end - c0);
      T most = 0;
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t r0 = block * along, r1 = least(rows, r0 + along);
        T largest[kStrip] = {}, factor[kStrip];
        for (int64_t r = r0; r < r1; ++r) {
          for (int64_t c = 0; c < strip; ++c) {
            const T v = x[r * cols + c0 + c], size = v < 0 ? -v : v;
            if (size > largest[c] && size <= kLargestFinite<T>) largest[c] = size;
          }
        }
        for (int64_t c = 0; c < strip; ++c) {
          const T scale = known ? *known : power_of_two<T>(float8_exponent(largest[c], mantissa));
          most = largest[c] > most ? largest[c] : most;
          scales[(c0 + c) * (step / along) + block] = scale;
          factor[c] = 1 / scale;
        }
        for (int64_t r = r0; r < r0 + along; ++r) {
          for (int64_t c = 0; c < strip; ++c) {
            codes[(c0 + c) * step + r] =
                r < r1 ? float8_code(x[r * cols + c0 + c] * factor[c], mantissa) : 0;
          }
        }
      }
      of_strips[c0 / kStrip] = most;
    }
  });
  T most = 0;
  for (int64_t i = 0; i < strips; ++i) most = of_strips[i] > most ? of_strips[i] : most;
  return most;
}

template <class T>
void run_ragged_quantize(const KernelArgs& args) {
  const int64_t parts = args.dims[0], places = args.dims[1], cols = args.dims[3];
  const int64_t along = args.dims[5], blocks = args.dims[6], padded = args.dims[7];
  const std::int32_t* const counts = input<std::int32_t>(args, 1);
  const T* const known = input<T>(args, 2);
  auto* const codes = reinterpret_cast<uint8_t*>(args.out[0]);
  T* const most = output<T>(args, 2);
  if (most) *most = 0;
  int64_t first = 0;  // of the part's codes in a line
  for_ragged_parts(counts, parts, parts, blocks, places, [&](int64_t, int64_t row, int64_t rows) {
    T of_part = 0;
    const auto keep = [&] {
      if (most && of_part > *most) *most = of_part;
    };
    if (args.dims[4] != 0) {
      of_part = quantize_columns<T>(*args.team, input<T>(args, 0) + row * cols, rows, cols, along,
                                    static_cast<int>(args.scalars[0]), known, padded, codes + first,
                                    output<T>(args, 1) + first / along);
      first += (rows + along - 1) / along * along;
      return keep();
    }
    const int64_t dims[6] = {rows, cols, 0, 1, along, 1};
    KernelArgs part = args;
    part.dims = dims;
    part.in[0] = args.in[0] + row * cols * static_cast<int64_t>(sizeof(T));
    part.in[1] = args.in[2];
    part.out[0] = args.out[0] + row * cols;
    part.out[1] =
        args.out[1] + row * ((cols + along - 1) / along) * static_cast<int64_t>(sizeof(T));
    part.out[2] = most ? reinterpret_cast<std::byte*>(&of_part) : nullptr;
    run_quantize<T>(part);
    keep();
  });
}

/// The values of columns `first` to `first + length` of lines of `step` codes, in blocks of
/// 1 x `along`, in the calling thread's scratch memory.
template <class T>
const T* widened_lines(ThreadTeam& team, const uint8_t* codes, const T* scales, int64_t lines,
                       int64_t step, int64_t first, int64_t length, int64_t along, double mantissa,
                       Scratch slot) {
  T* const values = static_cast<T*>(scratch(slot, static_cast<size_t>(lines * length) * sizeof(T)));
  T number[256];
  for (int code = 0; code < 256; ++code) {
    number[code] = T(float8_value(static_cast<uint8_t>(code), static_cast<int>(mantissa)));
  }
  const int64_t parts = (step + along - 1) / along;
  parallel(team, lines, row_grain(length), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = first; c < first + length; ++c) {
        values[r * length + c - first] =
            number[codes[r * step + c]] * scales[r * parts + c / along];
      }
    }
  });
  return values;
}

template <class T>
void run_ragged_scaled_gemm(const KernelArgs& args) {
  const int64_t groups = args.dims[0], chunks = args.dims[1], places = args.dims[2];
  const int64_t n = args.dims[4], k = args.dims[5], across = args.dims[6], along = args.dims[7];
  const bool beside = args.scalars[2] != 0;
  KernelArgs of_weights = args;
  of_weights.in[0] = args.in[1];
  of_weights.in[1] = args.in[3];
  const T* const b =
      widened<T>(of_weights, 0, 1, beside ? n : groups * n, beside ? groups * k : k, across, along,
                 args.scalars[1], Scratch::Rows, beside ? groups : 1, 1);
  const auto* const codes = reinterpret_cast<const uint8_t*>(args.in[0]);
  const T* const scales = input<T>(args, 2);
  for_ragged_parts(
      input<std::int32_t>(args, 4), groups * chunks, groups, static_cast<int64_t>(args.scalars[3]),
      places, [&](int64_t g, int64_t row, int64_t rows) {
        const T* const a =
            widened_lines<T>(*args.team, codes + row * k, scales + row * ((k + along - 1) / along),
                             rows, k, 0, k, along, args.scalars[0], Scratch::Tiles);
        team_gemm<T>(*args.team, false, true, rows, n, k, a, b + g * n * k,
                     output<T>(args, 0) + row * n, {false, nullptr, nullptr, 0});
      });
}

/// Chunks are added in order, each to the sum of those before; groups without rows get zeros.
template <class T>
void run_ragged_scaled_gemm_weight(const KernelArgs& args) {
  const int64_t groups = args.dims[0], chunks = args.dims[1], padded = args.dims[2];
  const int64_t m = args.dims[4], n = args.dims[5], along = args.dims[6];
  T* const dw = output<T>(args, 0);
  if (!args.accumulate) {
    __builtin_memset(dw, 0, static_cast<std::size_t>(groups * m * n) * sizeof(T));
  }
  const std::int32_t* const counts = input<std::int32_t>(args, 4);
  const auto factor = [&](int i, int64_t lines, int64_t first, int64_t length, Scratch slot) {
    return widened_lines<T>(*args.team, reinterpret_cast<const uint8_t*>(args.in[i]),
                            input<T>(args, 2 + i), lines, padded, first, length, along,
                            args.scalars[i], slot);
  };
  int64_t first = 0;
  for (int64_t part = 0; part < groups * chunks; ++part) {
    const int64_t length = (counts[part] + along - 1) / along * along;
    if (length == 0) continue;
    const T* const dy = factor(0, m, first, length, Scratch::Tiles);
    const T* const x = factor(1, n, first, length, Scratch::Rows);
    team_gemm<T>(*args.team, false, true, m, n, length, dy, x, dw + part % groups * m * n,
                 {true, nullptr, nullptr, 0});
    first += length;
  }
}

}  // namespace
}  // namespace lockstep::cpu
