#include "backends/cpu/kernels/widened_operands.hpp"

#include "core/base/bfloat16.hpp"
#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

double rounded(double value) { return static_cast<float>(bfloat16(static_cast<float>(value))); }
Values rounded(Values values) {
  for (double& v : values) v = rounded(v);
  return values;
}

/// Checks that a kernel in bfloat16 gives what it gives in float32 for the same inputs, rounded
/// once, and that outputs of the type of sums are not rounded at all.
void check_rounded_once(KernelCase c) {
  const KernelRow& row = info(c.kind);
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (row.in[i].type != OperandType::Index) c.in[i].values = rounded(c.in[i].values);
  }
  for (KernelOutput& out : c.out) out.initial = rounded(out.initial);
  c.dtype = DType::F32;
  const auto wide = run_everywhere(c);
  c.dtype = DType::BF16;
  const auto narrow = run_everywhere(c);
  for (std::size_t t = 0; t < wide.size(); ++t) {
    for (std::size_t i = 0; i < wide[t].size(); ++i) {
      INFO(row.name << " " << kernel_tables().tables[t].isa << " output " << i);
      const bool is_narrow = usual_dtype(row.out[i].type, DType::BF16) == DType::BF16;
      REQUIRE(bit_equal(narrow[t][i], is_narrow ? rounded(wide[t][i]) : wide[t][i]));
    }
  }
}

TEST_CASE("a product in bfloat16 is the exact one rounded to nearest, ties to even",
          "[backends][cpu]") {
  // Between 256 and 512 bfloat16 has the even numbers, between 512 and 1024 the multiples of 4.
  // [16 1] [16 -1  16  1.5 ]   [16*16+3  -16+1  16*16+1  16*1.5+1 ]   259 257 are ties
  //        [ 3  1   1  1   ] =
  // [32 2] [...]               [32*16+6  -32+2  32*16+2  32*1.5+2 ]   518 514 are ties
  KernelCase c{KernelKind::Gemm, DType::BF16};
  c.dims = {2, 4, 2, 0, 0};
  c.in = {{{16, 1, 32, 2}}, {{16, -1, 16, 1.5, 3, 1, 1, 1}}, {}, {}};
  c.out = {{8}};
  for (const auto& results : run_everywhere(c)) {
    // 259 -> 260 (258 and 260 are neighbours, 260 has the even last bit), 257 -> 256;
    // 518 -> 520 (516 and 520), 514 -> 512.
    CHECK(results[0] == Values{260, -15, 256, 25, 520, -30, 512, 50});
  }
}

TEST_CASE("sums inside a product are kept in float32", "[backends][cpu]") {
  // 256 + 1 + 1 + … 256 times: rounding every sum to bfloat16 would stay at 256 for ever.
  KernelCase c{KernelKind::Gemm, DType::BF16};
  c.dims = {1, 1, 257, 0, 0};
  Values a(257, 1.0);
  a[0] = 256;
  c.in = {{a}, {Values(257, 1.0)}, {}, {}};
  c.out = {{1}};
  for (const auto& results : run_everywhere(c)) CHECK(results[0] == Values{512});
}

TEST_CASE("every way of passing operands is rounded once", "[backends][cpu]") {
  SECTION("read and written, not read before") {
    KernelCase c{KernelKind::GeluForward};
    c.dims = {40000};  // more than one part of the work of a team
    c.in = {{random_values(40000, 1, 4)}};
    c.out = {{40000}};
    check_rounded_once(c);
  }
  SECTION("added to") {
    KernelCase c{KernelKind::ColumnSum};
    c.dims = {5, 7};
    c.in = {{random_values(35, 2)}};
    c.out = {{7, -1, random_values(7, 3)}};
    c.accumulate = true;
    check_rounded_once(c);
  }
  SECTION("updated in place, in part") {
    KernelCase c{KernelKind::Rope};
    c.dims = {2, 5, 3, 6, 4, 0};
    c.scalars = {10000};
    c.in = {{random_values(2 * 5 * 4 * 6, 4)}};
    c.out = {{2 * 5 * 4 * 6, 0}};
    check_rounded_once(c);
  }
  SECTION("absent, several outputs") {
    KernelCase c{KernelKind::LayerNormForward};
    c.dims = {3, 9};
    c.scalars = {1e-5};
    c.in = {{random_values(27, 5)}, {random_values(9, 6)}, {random_values(9, 7)}};
    c.out = {{27}, {6}};
    check_rounded_once(c);
  }
  SECTION("beside indices and a result of its own type") {
    KernelCase c{KernelKind::EmbeddingForward};
    c.dims = {6, 5, 3, 11};
    c.in = {{random_ids(6, 8, 11)}, {random_values(55, 9)}, {random_values(15, 10)}};
    c.out = {{30}};
    check_rounded_once(c);
  }
}

TEST_CASE("products in bfloat16 of all shapes are those of their exact operands",
          "[backends][cpu]") {
  struct Shape {
    std::int64_t m, n, k;
  };
  for (const auto& [m, n, k] :
       {Shape{1, 1, 1}, Shape{16, 32, 32}, Shape{33, 47, 31}, Shape{5, 70, 65}, Shape{70, 5, 64},
        Shape{64, 96, 160}, Shape{31, 33, 700}, Shape{40, 66, 5000}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const bool adds : {false, true}) {
          INFO(m << " x " << n << " x " << k << (ta ? " T" : " N") << (tb ? "T" : "N"));
          const Values a = rounded(random_values(to_size(m * k), 1));
          const Values b = rounded(random_values(to_size(k * n), 2));
          const Values bias = rounded(random_values(to_size(n), 3));
          const Values resid = rounded(random_values(to_size(m * n), 4));
          const Values old = rounded(random_values(to_size(m * n), 5));
          KernelCase c{KernelKind::Gemm, DType::BF16};
          c.dims = {m, n, k, ta, tb};
          c.accumulate = adds;
          c.in = {{a}, {b}, {adds ? bias : Values{}}, {adds ? resid : Values{}}};
          c.out = {{to_size(m * n), -1, adds ? old : Values{}}};
          Values exact(to_size(m * n), 0.0);
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              double sum =
                  adds ? bias[to_size(j)] + resid[to_size(i * n + j)] + old[to_size(i * n + j)] : 0;
              for (std::int64_t l = 0; l < k; ++l) {
                sum +=
                    a[to_size(ta ? l * m + i : i * k + l)] * b[to_size(tb ? j * k + l : l * n + j)];
              }
              exact[to_size(i * n + j)] = sum;
            }
          }
          // Sums are float32, and rounded to 8 bits once.
          for (const auto& results : run_everywhere(c)) {
            for (std::size_t i = 0; i < exact.size(); ++i) {
              REQUIRE(std::abs(results[0][i] - exact[i]) <=
                      std::abs(exact[i]) / 256 * 1.001 + 1e-5);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("products of experts in bfloat16 are those of their exact operands", "[backends][cpu]") {
  struct Shape {
    std::int64_t groups, chunks, m, n, k;
  };
  for (const auto& [groups, chunks, m, n, k] :
       {Shape{1, 1, 3, 5, 7}, Shape{3, 1, 17, 33, 40}, Shape{2, 3, 5, 34, 65}}) {
    for (const bool tb : {false, true}) {
      INFO(groups << " groups, " << chunks << " chunks, " << m << " x " << n << " x " << k);
      const std::int64_t parts = groups * chunks;
      const Values a = rounded(random_values(to_size(parts * m * k), 1));
      const Values b = rounded(random_values(to_size(groups * k * n), 2));
      const Values bias = rounded(random_values(to_size(groups * n), 3));
      KernelCase c{KernelKind::GroupedGemm, DType::BF16};
      c.dims = {groups, chunks, m, n, k, tb};
      c.in = {{a}, {b}, {tb ? bias : Values{}}};
      c.out = {{to_size(parts * m * n)}};
      const auto forward = run_everywhere(c);
      // The weight's gradient, dyᵀ x, in one chunk: several are added up in bfloat16 otherwise.
      const Values x = rounded(random_values(to_size(groups * m * n), 4));
      const Values old = rounded(random_values(to_size(groups * k * n), 5));
      KernelCase w{KernelKind::GroupedGemmWeight, DType::BF16};
      w.dims = {groups, 1, m, k, n};
      w.accumulate = tb;
      w.in = {{Values(a.begin(), a.begin() + groups * m * k)}, {x}};
      w.out = {{to_size(groups * k * n), -1, tb ? old : Values{}}, {0}};
      const auto backward = run_everywhere(w);
      const auto close = [](double found, double exact) {
        return std::abs(found - exact) <= std::abs(exact) / 256 * 1.001 + 1e-5;
      };
      for (std::size_t t = 0; t < forward.size(); ++t) {
        for (std::int64_t part = 0; part < parts; ++part) {
          const std::int64_t g = part % groups;
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              double sum = tb ? bias[to_size(g * n + j)] : 0;
              for (std::int64_t l = 0; l < k; ++l) {
                sum += a[to_size((part * m + i) * k + l)] *
                       b[to_size(g * k * n + (tb ? j * k + l : l * n + j))];
              }
              REQUIRE(close(forward[t][0][to_size((part * m + i) * n + j)], sum));
            }
          }
        }
        for (std::int64_t g = 0; g < groups; ++g) {
          for (std::int64_t l = 0; l < k; ++l) {
            for (std::int64_t j = 0; j < n; ++j) {
              double sum = tb ? old[to_size((g * k + l) * n + j)] : 0;
              for (std::int64_t i = 0; i < m; ++i) {
                sum += a[to_size((g * m + i) * k + l)] * x[to_size((g * m + i) * n + j)];
              }
              REQUIRE(close(backward[t][0][to_size((g * k + l) * n + j)], sum));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("counted products of experts in bfloat16 are the products of their rows",
          "[backends][cpu]") {
  constexpr std::int64_t kGroups = 3, kChunks = 2, kPlaces = 80, kN = 34, kK = 45;
  const std::vector<std::int64_t> counts = {3, 0, 33, 17, 0, 20};  // of chunk 0, then of chunk 1
  const auto slice = [](const Values& all, std::int64_t begin, std::int64_t n) {
    return Values(all.begin() + begin, all.begin() + begin + n);
  };
  const Values a = rounded(random_values(to_size(kPlaces * kK), 1));
  const Values b = rounded(random_values(to_size(kGroups * kN * kK), 2));
  const Values bias = rounded(random_values(to_size(kGroups * kN), 3));
  const Values dy = rounded(random_values(to_size(kPlaces * kN), 4));
  KernelCase forward{KernelKind::RaggedGemm, DType::BF16};
  forward.dims = {kGroups, kChunks, kPlaces, 73, kN, kK, 1, 1};
  forward.in = {{a}, {b}, {bias}, {Values(counts.begin(), counts.end())}};
  forward.out = {{to_size(kPlaces * kN), -1, Values(to_size(kPlaces * kN), 7)}};
  const auto results = run_everywhere(forward);
  KernelCase weight{KernelKind::RaggedGemmWeight, DType::BF16};
  weight.dims = {kGroups, 1, kPlaces, kPlaces, kN, kK, 1};
  weight.in = {{dy}, {a}, {{3, 0, 33}}};
  weight.out = {{to_size(kGroups * kN * kK)}, {0}};
  const auto gradients = run_everywhere(weight);
  for (int t = 0; t < kernel_tables().count; ++t) {
    INFO(kernel_tables().tables[t].isa);
    std::int64_t row = 0;
    for (std::size_t part = 0; part < counts.size(); ++part) {
      const std::int64_t g = static_cast<std::int64_t>(part) % kGroups, rows = counts[part];
      if (rows > 0) {
        KernelCase one{KernelKind::Gemm, DType::BF16};
        one.dims = {rows, kN, kK, 0, 1};
        one.in = {{slice(a, row * kK, rows * kK)},
                  {slice(b, g * kN * kK, kN * kK)},
                  {slice(bias, g * kN, kN)},
                  {}};
        one.out = {{to_size(rows * kN)}};
        CHECK(bit_equal(run_once(one, kernel_tables().tables[t], 1)[0],
                        slice(results[to_size(t)][0], row * kN, rows * kN)));
      }
      if (part < kGroups) {
        Values expected(to_size(kN * kK), 0);
        if (rows > 0) {
          KernelCase one{KernelKind::Gemm, DType::BF16};
          one.dims = {kN, kK, rows, 1, 0};
          one.in = {{slice(dy, row * kN, rows * kN)}, {slice(a, row * kK, rows * kK)}, {}, {}};
          one.out = {{to_size(kN * kK)}};
          expected = run_once(one, kernel_tables().tables[t], 1)[0];
        }
        CHECK(bit_equal(expected, slice(gradients[to_size(t)][0], g * kN * kK, kN * kK)));
      }
      row += rows;
    }
    for (std::int64_t i = row * kN; i < kPlaces * kN; ++i) {
      REQUIRE(results[to_size(t)][0][to_size(i)] == 7);  // places behind the rows
    }
  }
}

TEST_CASE("types may be mixed: bfloat16 in, a float32 sum out", "[backends][cpu]") {
  const Values x = rounded(random_values(6, 11)), dy = rounded(random_values(4, 12));
  Memory a(6, DType::BF16), b(4, DType::BF16), sum(6, DType::F32);
  a.write(x);
  b.write(dy);
  sum.write(Values(6, 0.25));
  Kernel kernel;  // dw[2,3] += dyT[2,2] x[2,3]
  kernel.kind = KernelKind::Gemm;
  kernel.dtype = DType::BF16;
  kernel.dims = {2, 3, 2, 1, 0};
  kernel.accumulate = true;
  kernel.in = {{0, DType::BF16, static_cast<std::int64_t>(b.guard())},
               {1, DType::BF16, static_cast<std::int64_t>(a.guard())},
               {},
               {}};
  kernel.out = {{2, DType::F32, static_cast<std::int64_t>(sum.guard())}};
  REQUIRE(supports(kernel));
  std::byte* buffers[] = {b.data(), a.data(), sum.data()};
  ThreadTeam team(1);
  run_kernel(kernel, buffers, {}, team);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const double exact = 0.25 + dy[i] * x[j] + dy[2 + i] * x[3 + j];
      CHECK(sum.read()[i * 3 + j] == Approx(exact).epsilon(1e-6));
    }
  }
  kernel.out[0].dtype = DType::F64;  // float64 is for comparison, and mixes with nothing
  CHECK_FALSE(supports(kernel));
}

TEST_CASE("places behind counted rows stay as they are, however many rows were expected",
          "[backends][cpu]") {
  // 3 + 2 rows of two experts in 8 places, all of which were expected to be taken.
  const Values counts = {3, 2}, before(8 * 4, 7.0);
  KernelCase product{KernelKind::RaggedGemm, DType::BF16};
  product.dims = {2, 1, 8, 8, 4, 2, 1, 1};
  product.in = {{Values(16, 1.0)}, {Values(16, 0.5)}, {}, {counts}};
  product.out = {{8 * 4, -1, before}};
  KernelCase activation{KernelKind::RaggedActivationForward, DType::BF16};
  activation.dims = {8, 8, 4, 0, 2, 1};
  activation.in = {{Values(8 * 4, 1.0)}, {counts}};
  activation.out = {{8 * 4, -1, before}};
  for (const KernelCase& c : {product, activation}) {
    for (const auto& results : run_everywhere(c)) {
      CHECK(results[0][5 * 4 - 1] != 7);
      CHECK(Values(results[0].begin() + 5 * 4, results[0].end()) == Values(3 * 4, 7.0));
    }
  }
}

TEST_CASE("bfloat16 keeps infinities and NaNs and rounds to nearest even", "[backends][cpu]") {
  const auto bits = [](std::uint32_t wide) { return bfloat16(std::bit_cast<float>(wide)).bits; };
  CHECK(bits(0x3f800000) == 0x3f80);
  CHECK(bits(0x3f808000) == 0x3f80);  // a tie, to even
  CHECK(bits(0x3f818000) == 0x3f82);
  CHECK(bits(0x3f808001) == 0x3f81);
  CHECK(bits(0x7f7fffff) == 0x7f80);  // overflows to infinity
  CHECK(bits(0x7f800000) == 0x7f80);
  CHECK(bits(0xffffffff) == 0xffff);
  CHECK(bits(0x7f800001) == 0x7fc0);  // still a NaN
}

}  // namespace
}  // namespace lockstep::cpu::test
