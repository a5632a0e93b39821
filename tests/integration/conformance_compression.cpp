// Cases of values in a few bits, and of bases.
#include <cstring>
#include <limits>

#include "core/base/block_codes.hpp"
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {
namespace {

using K = KernelKind;

/// The bytes of codes of `parts` parts, of every kind.
Numbers bytes_of(std::int64_t n, std::int64_t parts, std::int64_t block, int bits) {
  const std::int64_t blocks = (n + block - 1) / block, bytes = bytes_of_codes(n, block, bits);
  std::vector<std::uint8_t> all(static_cast<std::size_t>(parts * bytes));
  for (std::int64_t p = 0; p < parts; ++p) {
    std::uint8_t* const to = all.data() + p * bytes;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float scale = 0.25F / static_cast<float>(1 + (b + p) % 5);
      std::memcpy(to + 4 * b, &scale, sizeof scale);
    }
    const int most = largest_code(bits);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto code = static_cast<int>((37 * i + 5 * p) % (2 * most + 1)) - most;
      set_code(to + 4 * blocks, i, bits, code);
    }
  }
  return {all.begin(), all.end()};
}

}  // namespace

void ConformanceCases::block_codes(std::int64_t n, std::int64_t parts, std::int64_t block) {
  Numbers x = wave(n * parts, 3.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(x[i], static_cast<int>(i / 3 * 7 % 12) - 6);
    if (i % 11 == 4) x[i] = 0;
    if (i % 397 == 360) x[i] = std::numeric_limits<double>::infinity();
    if (i % 489 == 450) x[i] = std::nan("");
  }
  for (const int bits : {8, 4}) {
    const std::int64_t words = words_of_codes(n, bits);
    for (std::int64_t shared = 1; shared <= parts; ++shared) {
      if (parts % shared != 0) continue;
      add({.kind = K::ToCodes, .dims = {n, parts, shared, block, bits, words}, .in = {x}});
      add({.kind = K::FromCodes,
           .dims = {n, parts, block, bits, words, shared},
           .in = {bytes_of(n, parts, block, bits)}});
    }
  }
}

void ConformanceCases::basis(std::int64_t rows, std::int64_t cols) {
  const Numbers a = random(rows * cols);
  Numbers with_gap = a;
  for (std::int64_t r = 0; r < rows; ++r) with_gap[static_cast<std::size_t>(r * cols)] = 0;
  for (const double fill : {0.0, 1.0}) {
    for (const Numbers& initial : {a, with_gap}) {
      add({.kind = K::Orthonormalize,
           .dims = {rows, cols},
           .scalars = {1e-5, fill},
           .initial = {initial}});
    }
  }
}

}  // namespace lockstep::test
