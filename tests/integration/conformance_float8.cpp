// Cases of values in 8 bits and of their products.
#include <limits>

#include "core/base/float8.hpp"
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {
namespace {

using K = KernelKind;

/// Codes of numbers from 1/16 to less than 4, of which sums of products fit in float16, and zeros.
Numbers codes(std::int64_t n, int mantissa) {
  const int least = mantissa == kE4M3 ? 0x18 : 0x2c, count = mantissa == kE4M3 ? 0x30 : 0x18;
  Numbers values;
  for (std::int64_t i = 0; i < n; ++i) {
    const int code = least + static_cast<int>((37 * i + 11) % count) + (i % 3 == 1 ? 0x80 : 0);
    values.push_back(i % 13 == 5 ? 0 : code);
  }
  return values;
}

Numbers scales(std::int64_t n) {
  Numbers values;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(std::ldexp(1.0, static_cast<int>(i * 5 % 7) - 5));
  }
  return values;
}

std::int64_t parts(std::int64_t n, std::int64_t block) { return (n + block - 1) / block; }

}  // namespace

void ConformanceCases::quantize(std::int64_t rows, std::int64_t cols, std::int64_t across,
                                std::int64_t along) {
  Numbers x = wave(rows * cols, 3.0);
  // Sizes that differ by decades, zeros, what rounds to zero, and what is no number.
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(x[i], static_cast<int>(i / 3 * 7 % 12) - 6);
    if (i % 11 == 4) x[i] = 0;
    if (i % 97 == 60) x[i] = std::numeric_limits<double>::infinity();
    if (i % 89 == 50) x[i] = std::nan("");
  }
  for (const int mantissa : {kE4M3, kE5M2}) {
    for (const bool transposed : {false, true}) {
      add({.kind = K::Quantize,
           .dims = {rows, cols, transposed, across, along},
           .scalars = {double(mantissa)},
           .in = {x, {}}});
      add({.kind = K::Quantize,
           .dims = {rows, cols, transposed, across, along, 3},
           .scalars = {double(mantissa)},
           .in = {x, {0.25, 2, 0.5}}});
      add({.kind = K::Quantize,
           .dims = {rows, cols, transposed, across, along},
           .scalars = {double(mantissa)},
           .in = {x, {}},
           .absent_out = {true}});
    }
  }
}

void ConformanceCases::scaled_gemm(std::int64_t m, std::int64_t n, std::int64_t k,
                                   std::int64_t a_across, std::int64_t b_across,
                                   std::int64_t along) {
  for (const int mantissa : {kE4M3, kE5M2}) {
    ConformanceCase c{.kind = K::ScaledGemm,
                      .dims = {m, n, k, a_across, b_across, along, mantissa == kE5M2},
                      .scalars = {double(mantissa), kE4M3},
                      .in = {codes(m * k, mantissa),
                             codes(n * k, kE4M3),
                             {},
                             {},
                             scales(parts(m, a_across) * parts(k, along)),
                             scales(parts(n, b_across) * parts(k, along))}};
    add(c);
    c.in[2] = wave(n, 100.0);
    c.in[3] = wave(m * n, 100.0);
    add(c);
    c.in[2] = c.in[3] = {};
    c.initial = {wave(m * n, 1000.0)};
    c.accumulate = true;
    c.wide_out = "w";
    add(c);
  }
}

}  // namespace lockstep::test
