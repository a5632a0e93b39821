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
  T* const most = output<T>(args, 2);
  const int64_t blocks = (rows + across - 1) / across, parts = (cols + along - 1) / along;
  // The largest magnitudes of strips; which of them is found first does not matter.
  T* const of_strips =
      most ? static_cast<T*>(scratch(
                 Scratch::Tiles, static_cast<size_t>((blocks + kStrip - 1) / kStrip) * sizeof(T)))
           : nullptr;
  parallel(*args.team, blocks, kStrip, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kStrip) {
      const int64_t strip = least(kStrip, end - first);
      T of_strip = 0;
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
        if (!others || most) {
          visit([&](int64_t b, int64_t r, int64_t c) {
            const T v = x[r * row_step + c * col_step], size = v < 0 ? -v : v;
            if (size > largest[b] && size <= kLargestFinite<T>) largest[b] = size;
          });
          for (int64_t b = 0; b < strip; ++b) {
            of_strip = largest[b] > of_strip ? largest[b] : of_strip;
          }
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
      if (of_strips) of_strips[first / kStrip] = of_strip;
    }
  });
  if (!most) return;
  *most = 0;
  for (int64_t i = 0; i < (blocks + kStrip - 1) / kStrip; ++i) {
    *most = of_strips[i] > *most ? of_strips[i] : *most;
  }
}

/// The largest magnitudes of the factors of a linear layer, beside those that are there.
template <class T>
void run_largest(const KernelArgs& args) {
  T* const y = output<T>(args, 0);
  for (int i = 0; i < 3; ++i) {
    const T own = args.in[i] ? *input<T>(args, i) : T(0);
    y[i] = args.accumulate && y[i] > own ? y[i] : own;
  }
}

template <class T>
void run_delayed_scale(const KernelArgs& args) {
  if (read_factor(args, 1) < 0) return;  // a gradient is not finite
  const int64_t n = args.dims[0], length = args.dims[1];
  const int margin = static_cast<int>(args.scalars[0]);
  const bool recent = args.scalars[1] != 0;
  const T* const now = input<T>(args, 0);
  for (int64_t i = 0; i < n; ++i) {
    T* const history = output<T>(args, 1) + i * length;
    for (int64_t s = length - 1; s > 0; --s) history[s] = history[s - 1];
    history[0] = now[i];
    T most = history[0];
    for (int64_t s = 1; s < length && !recent; ++s) most = history[s] > most ? history[s] : most;
    if (!(most > 0) || !(most <= kLargestFinite<T>)) continue;
    const int mantissa = static_cast<int>(args.scalars[i % 3 == 2 ? 3 : 2]);
    output<T>(args, 0)[i] = power_of_two<T>(delayed_exponent(most, margin, mantissa));
  }
}

/// The values of a factor [rows, cols], in the calling thread's scratch memory. Columns of groups
/// that stand as rows of experts do (scaled_gemm) are brought together: [groups, rows, columns of
/// one].
template <class T>
const T* widened(const KernelArgs& args, int codes_at, int scales_at, int64_t rows, int64_t cols,
                 int64_t across, int64_t along, double mantissa, Scratch slot, int64_t groups = 1,
                 int64_t chunks = 1) {
  const int64_t run = cols / (groups * chunks), of_one = cols / groups;
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
          const int64_t group = c / run % groups, chunk = c / run / groups;
          const int64_t to = (group * rows + r) * of_one + chunk * run + c % run;
          values[to] = number[codes[r * cols + c]] * scale;
        }
      }
    }
  });
  return values;
}

template <class T>
void run_scaled_gemm(const KernelArgs& args) {
  const int64_t m = args.dims[0], n = args.dims[1], k = args.dims[2], along = args.dims[5];
  const bool by_rows = args.dims[6] != 0, beside = args.scalars[3] != 0;
  const int64_t groups = args.dims[7] > 0 ? args.dims[7] : 1;
  const int64_t chunks = args.dims[7] > 0 ? static_cast<int64_t>(args.scalars[2]) : 1;
  const auto widen = [&](int at, int64_t rows, int64_t cols, Scratch slot, bool brings) {
    return widened<T>(args, at, 4 + at, rows, cols, args.dims[3 + at], along, args.scalars[at],
                      slot, brings ? groups : 1, brings && by_rows ? chunks : 1);
  };
  const bool apart = !by_rows && !beside;  // weights of groups, one above the other
  const T* const a = widen(0, m, k, Scratch::Tiles, by_rows);
  const T* const b = widen(1, apart ? groups * n : n, by_rows || apart ? k : groups * k,
                           Scratch::Rows, by_rows || beside);
  const T* const bias = input<T>(args, 2);
  T* const c = output<T>(args, 0);
  if (by_rows) {
    for (int64_t g = 0; g < groups; ++g) {
      team_gemm<T>(*args.team, false, true, m, n, k / groups, a + g * m * (k / groups),
                   b + g * n * (k / groups), c + g * m * n,
                   {args.accumulate, bias, input<T>(args, 3), n});
    }
    return;
  }
  const int64_t rows = m / (groups * chunks);
  for (int64_t part = 0; part < groups * chunks; ++part) {
    const int64_t g = part % groups, first = part * rows;
    const T* const resid = input<T>(args, 3);
    team_gemm<T>(
        *args.team, false, true, rows, n, k, a + first * k, b + g * n * k, c + first * n,
        {args.accumulate, bias ? bias + g * n : nullptr, resid ? resid + first * n : nullptr, n});
  }
}

}  // namespace
}  // namespace lockstep::cpu
