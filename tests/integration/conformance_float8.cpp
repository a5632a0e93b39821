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
      for (const std::vector<bool>& absent :
           {std::vector<bool>{true, false, true}, std::vector<bool>{false, false, true}}) {
        add({.kind = K::Quantize,
             .dims = {rows, cols, transposed, across, along},
             .scalars = {double(mantissa)},
             .in = {x, {}},
             .absent_out = absent});
      }
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

void ConformanceCases::scaled_groups(std::int64_t groups, std::int64_t chunks, std::int64_t rows,
                                     std::int64_t n, std::int64_t k, std::int64_t block) {
  const std::int64_t all = groups * chunks * rows;
  const double ranks = double(chunks);
  for (const bool beside : {false, true}) {
    ConformanceCase c{.kind = K::ScaledGemm,
                      .dims = {all, n, k, 1, block, block, 0, groups},
                      .scalars = {kE5M2, kE4M3, ranks, beside ? 1.0 : 0.0},
                      .in = {codes(all * k, kE5M2),
                             codes(groups * n * k, kE4M3),
                             {},
                             {},
                             scales(all * (k / block)),
                             scales(groups * (n / block) * (k / block))}};
    add(c);
    c.in[2] = wave(groups * n, 100.0);
    add(c);
  }
  ConformanceCase gradient{.kind = K::ScaledGemm,
                           .dims = {n, k, all, 1, 1, block, 1, groups},
                           .scalars = {kE4M3, kE4M3, ranks, 0},
                           .in = {codes(n * all, kE4M3),
                                  codes(k * all, kE4M3),
                                  {},
                                  {},
                                  scales(n * (all / block)),
                                  scales(k * (all / block))}};
  add(gradient);
  gradient.accumulate = true;
  gradient.initial = {wave(groups * n * k, 1000.0)};
  gradient.wide_out = "w";
  add(gradient);
}

void ConformanceCases::ragged_float8(std::int64_t groups, std::int64_t chunks, std::int64_t n,
                                     std::int64_t k, std::int64_t along, std::int64_t blocks) {
  const std::int64_t all = groups * chunks;
  Numbers counts;
  std::int64_t rows = 0;
  for (std::int64_t part = 0; part < all; ++part) {
    const std::int64_t count = part * 13 % 23;
    counts.push_back(static_cast<double>(count));
    rows += count;
  }
  const std::int64_t places = blocks == 1 ? rows + 3 : blocks * (groups * 22 + 3);
  const std::int64_t padded = (places + all * (along - 1)) / along * along;
  Numbers x = wave(places * k, 3.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(x[i], static_cast<int>(i / 3 * 7 % 12) - 6);
    if (i % 11 == 4) x[i] = 0;
    if (i % 97 == 60) x[i] = std::numeric_limits<double>::infinity();
  }
  for (const bool transposed : {false, true}) {
    const std::int64_t elements = k * (transposed ? padded : places);
    add({.kind = K::RaggedQuantize,
         .dims = {all, places, rows, k, transposed, along, blocks, padded},
         .scalars = {double(transposed ? kE5M2 : kE4M3)},
         .in = {x, counts},
         .initial = {codes(elements, kE4M3),
                     scales(transposed ? k * (padded / along) : places * parts(k, along))},
         .absent_out = {false, false, true}});
    // With a scale that follows from earlier steps, as experts take it: for lines of rows that of
    // all columns.
    const std::int64_t length = transposed ? along : k;
    const std::int64_t room = (places + all * (length - 1)) / length * length;
    add({.kind = K::RaggedQuantize,
         .dims = {all, places, rows, k, transposed, length, blocks, room},
         .scalars = {double(transposed ? kE5M2 : kE4M3)},
         .in = {x, counts, {0.125}},
         .initial = {codes(k * (transposed ? room : places), kE4M3),
                     scales(transposed ? k * (room / length) : places)}});
  }
  for (const bool beside : {false, true}) {
    for (const std::int64_t across : {std::int64_t{1}, along}) {
      const std::int64_t lines_of_b = (beside ? n : groups * n) / across;
      add({.kind = K::RaggedScaledGemm,
           .dims = {groups, chunks, places, rows, n, k, across, along},
           .scalars = {kE5M2, kE4M3, beside ? 1.0 : 0.0, double(blocks)},
           .in = {codes(places * k, kE5M2), codes(groups * n * k, kE4M3),
                  scales(places * (k / along)),
                  scales(lines_of_b * (k / along) * (beside ? groups : 1)), counts},
           .initial = {wave(places * n, 5.0)}});
    }
  }
  // Codes that stand in the padding are zeros.
  const auto padded_codes = [&](std::int64_t width, int mantissa) {
    Numbers values = codes(width * padded, mantissa);
    std::int64_t first = 0;
    for (std::int64_t part = 0; part < all; ++part) {
      const auto count = static_cast<std::int64_t>(counts[static_cast<std::size_t>(part)]);
      const std::int64_t end = first + (count + along - 1) / along * along;
      for (std::int64_t line = 0; line < width; ++line) {
        for (std::int64_t i = first + count; i < end; ++i) {
          values[static_cast<std::size_t>(line * padded + i)] = 0;
        }
      }
      first = end;
    }
    return values;
  };
  for (const bool accumulate : {false, true}) {
    ConformanceCase gradient{
        .kind = K::RaggedScaledGemmWeight,
        .dims = {groups, chunks, padded, rows, n, k, along},
        .scalars = {kE5M2, kE4M3},
        .in = {padded_codes(n, kE5M2), padded_codes(k, kE4M3), scales(n * (padded / along)),
               scales(k * (padded / along)), counts},
        .accumulate = accumulate,
        .wide_out = "w"};
    if (accumulate) gradient.initial = {wave(groups * n * k, 1000.0)};
    add(gradient);
  }
}

void ConformanceCases::delayed_scales(std::int64_t linears, std::int64_t length) {
  ConformanceCase c{.kind = K::Largest, .in = {{0.75}, {3}, {0.125}}, .wide_out = "w"};
  add(c);
  c.accumulate = true;
  c.initial = {{1, 2, 0.125}};
  add(c);
  const std::int64_t n = 3 * linears;
  Numbers now, history;
  for (std::int64_t i = 0; i < n; ++i) {
    now.push_back(i % 5 == 3 ? 0
                             : std::ldexp(1.0 + double(i % 3) / 4, static_cast<int>(i % 7) - 3));
    for (std::int64_t s = 0; s < length; ++s) {
      history.push_back(i % 5 == 3 ? 0 : double((7 * i + 5 * s) % 11) / 2);
    }
  }
  // A negative coefficient: nothing changes.
  for (const Numbers& coefficient : {Numbers{}, Numbers{0.25}, Numbers{-1.0}}) {
    for (const double recent : {0.0, 1.0}) {
      add({.kind = K::DelayedScale,
           .dims = {n, length},
           .scalars = {recent == 0 ? 1.0 : -1.0, recent, double(kE4M3), double(kE5M2)},
           .in = {now, coefficient},
           .initial = {scales(n), history},
           .wide_in = coefficient.empty() ? "w" : "ww",
           .wide_out = " w"});
    }
  }
}

}  // namespace lockstep::test
