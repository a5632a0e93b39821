// Values in 8 bits with scales of blocks, and their products. A product widens its factors, which
// rounds nothing, and multiplies them as any others. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_gemm.hpp"
#include "core/base/float8.hpp"

namespace lockstep::cpu {
namespace {

template <class T>
inline constexpr T kLargestFinite = sizeof(T) == 8 ? T(__DBL_MAX__) : T(__FLT_MAX__);

template <class T>
void run_quantize(const KernelArgs& args) {
  constexpr int64_t kStrip = 16;  // rows of blocks that are made together
  const bool transposed = args.dims[2] != 0;
  const int64_t rows = args.dims[transposed ? 1 : 0], cols = args.dims[transposed ? 0 : 1];  // of y
  const int64_t across = args.dims[3], along = args.dims[4];
  const int mantissa = static_cast<int>(args.scalars[0]);
  const int64_t row_step = transposed ? 1 : cols, col_step = transposed ? rows : 1;  // in x
  const T* const x = input<T>(args, 0);
  auto* const codes = reinterpret_cast<uint8_t*>(args.out[0]);
  const T* const others = input<T>(args, 1);
  T* const scales = output<T>(args, 1);
  T given = 0;
  for (int64_t i = 0; others && i < args.dims[5]; ++i)
    given = others[i] > given ? others[i] : given;
  const int64_t blocks = (rows + across - 1) / across, parts = (cols + along - 1) / along;
  parallel(*args.team, blocks, kStrip, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kStrip) {
      const int64_t strip = least(kStrip, end - first);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t col0 = part * along, col1 = least(cols, col0 + along);
        // Visits the elements of the strip in the order in which they lie in x.
        const auto visit = [&](const auto& each) __attribute__((always_inline)) {
          const auto rows_of = [&](int64_t b, const auto& of_row) {
            const int64_t row0 = (first + b) * across, row1 = least(rows, row0 + across);
            for (int64_t r = row0; r < row1; ++r) of_row(r);
          };
          if (transposed) {
            for (int64_t c = col0; c < col1; ++c) {
              for (int64_t b = 0; b < strip; ++b) rows_of(b, [&](int64_t r) { each(b, r, c); });
            }
          } else {
            for (int64_t b = 0; b < strip; ++b) {
              rows_of(b, [&](int64_t r) {
                for (int64_t c = col0; c < col1; ++c) each(b, r, c);
              });
            }
          }
        };
        T largest[kStrip] = {}, factor[kStrip];
        if (!others) {
          visit([&](int64_t b, int64_t r, int64_t c) {
            const T v = x[r * row_step + c * col_step], size = v < 0 ? -v : v;
            if (size > largest[b] && size <= kLargestFinite<T>) largest[b] = size;
          });
        }
        for (int64_t b = 0; b < strip; ++b) {
          const T scale = others ? given : power_of_two<T>(float8_exponent(largest[b], mantissa));
          scales[(first + b) * parts + part] = scale;
          factor[b] = 1 / scale;
        }
        if (!codes) continue;
        visit([&](int64_t b, int64_t r, int64_t c) {
          codes[r * cols + c] = float8_code(x[r * row_step + c * col_step] * factor[b], mantissa);
        });
      }
    }
  });
}

/// The values of a factor [rows, cols], in the calling thread's scratch memory.
template <class T>
const T* widened(const KernelArgs& args, int codes_at, int scales_at, int64_t rows, int64_t cols,
                 int64_t across, int64_t along, double mantissa, Scratch slot) {
  T* const values = static_cast<T*>(scratch(slot, static_cast<size_t>(rows * cols) * sizeof(T)));
  const auto* const codes = reinterpret_cast<const uint8_t*>(args.in[codes_at]);
  const T* const scales = input<T>(args, scales_at);
  T number[256];
  for (int code = 0; code < 256; ++code) {
    number[code] = T(float8_value(static_cast<uint8_t>(code), static_cast<int>(mantissa)));
  }
  const int64_t parts = (cols + along - 1) / along;
  parallel(*args.team, rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t part = 0; part < parts; ++part) {
        const T scale = scales[r / across * parts + part];
        const int64_t last = least(cols, (part + 1) * along);
        for (int64_t c = part * along; c < last; ++c) {
          values[r * cols + c] = number[codes[r * cols + c]] * scale;
        }
      }
    }
  });
  return values;
}

template <class T>
void run_scaled_gemm(const KernelArgs& args) {
  const int64_t m = args.dims[0], n = args.dims[1], k = args.dims[2], along = args.dims[5];
  const T* const a =
      widened<T>(args, 0, 4, m, k, args.dims[3], along, args.scalars[0], Scratch::Tiles);
  const T* const b =
      widened<T>(args, 1, 5, n, k, args.dims[4], along, args.scalars[1], Scratch::Rows);
  team_gemm<T>(*args.team, false, true, m, n, k, a, b, output<T>(args, 0),
               {args.accumulate, input<T>(args, 2), input<T>(args, 3), n});
}

}  // namespace
}  // namespace lockstep::cpu
