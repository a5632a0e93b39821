#include "tests/integration/kernel_conformance.hpp"

namespace lockstep::test {
namespace {

using K = KernelKind;

class Cases {
 public:
  std::vector<ConformanceCase> take() { return std::move(cases_); }

  Numbers random(std::int64_t n, double scale = 1.0, double offset = 0.0) {
    Numbers v(static_cast<std::size_t>(n));
    for (double& x : v) {
      x = static_cast<float>(scale * (static_cast<double>(engine_()) / 2147483648.0 - 1.0) +
                             offset);
    }
    return v;
  }
  Numbers ids(std::int64_t n, std::int64_t below) {
    Numbers v(static_cast<std::size_t>(n));
    for (double& x : v) x = static_cast<double>(engine_() % static_cast<unsigned>(below));
    return v;
  }
  ConformanceCase& add(ConformanceCase c) { return cases_.emplace_back(std::move(c)); }

  /// Outputs of a case in float64: what a backward kernel is given.
  static std::vector<Numbers> outputs(const ConformanceCase& c) {
    return ConformanceRun(c, DType::F64).reference();
  }

  void gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
    for (int t = 0; t < 4; ++t) {
      const bool ta = (t & 1) != 0, tb = (t & 2) != 0;
      const std::vector<std::int64_t> dims = {m, n, k, ta, tb};
      add({.kind = K::Gemm, .dims = dims, .in = {random(m * k), random(k * n)}});
      add({.kind = K::Gemm,
           .dims = dims,
           .in = {random(m * k), random(k * n), random(n), random(m * n)}});
      add({.kind = K::Gemm,
           .dims = dims,
           .in = {random(m * k), random(k * n)},
           .initial = {random(m * n)},
           .accumulate = true,
           .wide_out = "w"});
    }
    add({.kind = K::Gemm,
         .dims = {m, n, k, 0, 1},
         .in = {random(m * k), random(k * n), random(n), {}}});
    add({.kind = K::Gemm,
         .dims = {m, n, k, 0, 1},
         .in = {random(m * k), random(k * n), {}, random(m * n)}});
  }

  void attention(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t dim) {
    const std::vector<std::int64_t> dims = {batch, seq, heads, kv_heads, dim};
    const std::int64_t qkv = batch * seq * (heads + 2 * kv_heads) * dim;
    const ConformanceCase forward{
        .kind = K::AttentionForward, .dims = dims, .in = {random(qkv, 2.0)}, .wide_out = "-w"};
    add(forward);
    const auto saved = outputs(forward);
    add({.kind = K::AttentionBackward,
         .dims = dims,
         .in = {forward.in[0], saved[0], saved[1], random(batch * seq * heads * dim)},
         .wide_in = "--w-"});
  }

  void norm(bool centered, std::int64_t rows, std::int64_t cols) {
    const std::vector<std::int64_t> dims = {rows, cols};
    ConformanceCase forward{.kind = centered ? K::LayerNormForward : K::RmsNormForward,
                            .dims = dims,
                            .scalars = {1e-5},
                            .in = {random(rows * cols, 3.0, 0.5), random(cols)},
                            .wide_out = "-w"};
    if (centered) forward.in.push_back(random(cols));
    add(forward);
    if (cols == 1) return;  // what cancellation leaves of eps: nothing to compare
    const Numbers stats = outputs(forward)[1], dy = random(rows * cols);
    for (const bool resid : {false, true}) {
      add({.kind = centered ? K::LayerNormBackwardInput : K::RmsNormBackwardInput,
           .dims = dims,
           .in = {dy, forward.in[0], forward.in[1], stats, resid ? random(rows * cols) : Numbers{}},
           .aliases = {resid ? 4 : -1},
           .wide_in = "---w-"});
    }
    for (const bool accumulate : {false, true}) {
      ConformanceCase weight{
          .kind = centered ? K::LayerNormBackwardWeight : K::RmsNormBackwardWeight,
          .dims = dims,
          .in = {dy, forward.in[0], stats},
          .accumulate = accumulate,
          .wide_in = "--w",
          .wide_out = accumulate ? "ww" : ""};
      if (accumulate) weight.initial = {random(cols), random(cols)};
      add(weight);
    }
  }

  void rows_and_columns(std::int64_t rows, std::int64_t cols) {
    const std::int64_t n = rows * cols;
    add({.kind = K::ColumnSum, .dims = {rows, cols}, .in = {random(n)}});
    add({.kind = K::ColumnSum,
         .dims = {rows, cols},
         .in = {random(n)},
         .initial = {random(cols)},
         .accumulate = true,
         .wide_out = "w"});
    add({.kind = K::SwigluForward, .dims = {rows, cols}, .in = {random(2 * n, 6.0)}});
    add({.kind = K::SwigluBackward, .dims = {rows, cols}, .in = {random(n), random(2 * n, 6.0)}});
    for (const bool accumulate : {false, true}) {
      add({.kind = K::CrossEntropy,
           .dims = {rows, cols},
           .scalars = {1.0 / static_cast<double>(rows)},
           .in = {random(n, 8.0), ids(rows, cols)},
           .initial = {{}, accumulate ? random(1) : Numbers{}},
           .aliases = {accumulate ? 0 : -1},
           .accumulate = accumulate,
           .wide_out = "-w"});
    }
  }

  void line(std::int64_t n) {
    add({.kind = K::GeluForward, .dims = {n}, .in = {random(n, 6.0)}});
    add({.kind = K::GeluBackward, .dims = {n}, .in = {random(n), random(n, 6.0)}});
    add({.kind = K::GeluBackward, .dims = {n}, .in = {random(n), random(n, 60.0)}, .aliases = {0}});
    add({.kind = K::ReluForward, .dims = {n}, .in = {random(n)}});
    add({.kind = K::ReluBackward, .dims = {n}, .in = {random(n), random(n)}, .aliases = {0}});
    add({.kind = K::Fill, .dims = {n}, .scalars = {0.75}});
    add({.kind = K::Sum, .dims = {n}, .in = {random(n)}, .wide_out = "w"});
    for (const std::int64_t blocks : {1, 3}) {
      add({.kind = K::NormSquared, .dims = {n, blocks}, .in = {random(n)}, .wide_out = "w"});
      add({.kind = K::NormSquared,
           .dims = {n, blocks},
           .in = {random(n)},
           .initial = {random(blocks, 1.0, 2.0)},
           .accumulate = true,
           .wide_out = "w"});
    }
    for (const bool clipped : {false, true}) {
      add({.kind = K::AdamW,
           .dims = {n},
           .scalars = {0.9, 0.95, 1e-8, 0.1},
           .in = {random(n), clipped ? Numbers{0.25} : Numbers{}},
           .initial = {random(n), random(n), random(n, 0.5, 0.6)},
           .wide_in = clipped ? "ww" : ""});
      add({.kind = K::Sgd,
           .dims = {n},
           .scalars = {0.9, 0.1},
           .in = {random(n), clipped ? Numbers{0.25} : Numbers{}},
           .initial = {random(n), random(n)},
           .wide_in = clipped ? "ww" : ""});
    }
  }

  void clip(std::int64_t blocks, double max_norm) {
    add({.kind = K::ClipCoefficient,
         .dims = {blocks},
         .scalars = {max_norm},
         .in = {random(blocks, 0.5, 0.6)},
         .wide_in = "w",
         .wide_out = "ww"});
  }

  void embedding(std::int64_t tokens, std::int64_t cols, std::int64_t seq, std::int64_t vocab) {
    const std::vector<std::int64_t> dims = {tokens, cols, seq, vocab};
    for (const bool positions : {false, true}) {
      const Numbers own = ids(tokens, vocab);
      add({.kind = K::EmbeddingForward,
           .dims = dims,
           .in = {own, random(vocab * cols), positions ? random(seq * cols) : Numbers{}}});
      add({.kind = K::EmbeddingBackward,
           .dims = dims,
           .in = {own, random(tokens * cols)},
           .absent_out = {false, !positions}});
      add({.kind = K::EmbeddingBackward,
           .dims = dims,
           .in = {own, random(tokens * cols)},
           .initial = {random(vocab * cols), random(seq * cols)},
           .accumulate = true,
           .absent_out = {false, !positions},
           .wide_out = "ww"});
    }
  }

  void rope(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t dim,
            std::int64_t row_heads) {
    for (const std::int64_t inverse : {0, 1}) {
      add({.kind = K::Rope,
           .dims = {batch, seq, heads, dim, row_heads, inverse},
           .scalars = {10000.0},
           .in = {random(batch * seq * row_heads * dim)},
           .aliases = {0}});
    }
  }

 private:
  std::mt19937 engine_{17};
  std::vector<ConformanceCase> cases_;
};

}  // namespace

std::vector<ConformanceCase> conformance_cases(bool large) {
  Cases cases;
  cases.gemm(1, 1, 1);
  cases.gemm(5, 7, 3);
  cases.gemm(17, 33, 40);
  cases.gemm(48, 32, 64);
  cases.attention(1, 1, 1, 1, 1);
  cases.attention(2, 3, 2, 2, 5);
  cases.attention(1, 33, 3, 1, 8);
  cases.attention(1, 65, 4, 2, 20);
  cases.attention(1, 40, 1, 1, 100);
  cases.attention(1, 7, 2, 1, 64);
  cases.attention(2, 64, 2, 1, 64);
  cases.attention(1, 130, 2, 2, 64);
  cases.attention(1, 150, 2, 1, 128);
  for (const bool centered : {true, false}) {
    cases.norm(centered, 1, 1);
    cases.norm(centered, 3, 5);
    cases.norm(centered, 9, 33);
    cases.norm(centered, 20, 64);
    cases.norm(centered, 300, 48);
    cases.norm(centered, 5, 520);
  }
  cases.rows_and_columns(1, 1);
  cases.rows_and_columns(3, 7);
  cases.rows_and_columns(11, 64);
  cases.rows_and_columns(270, 40);
  cases.rows_and_columns(2, 2100);
  for (const std::int64_t n : {1, 7, 64, 1000, 2048}) cases.line(n);
  cases.line(40000);  // more than one part of a sum
  cases.clip(1, 0.5);
  cases.clip(7, 0.0);
  cases.clip(300, 1000.0);
  cases.embedding(1, 1, 1, 1);
  cases.embedding(12, 5, 4, 3);
  cases.embedding(600, 16, 100, 11);
  cases.rope(1, 1, 1, 2, 1);
  cases.rope(2, 9, 3, 8, 5);
  if (!large) return cases.take();
  cases.gemm(1024, 768, 3072);
  cases.gemm(1000, 2304, 768);
  cases.attention(2, 1024, 12, 12, 64);
  cases.attention(1, 1000, 8, 2, 128);
  cases.norm(true, 4096, 768);
  cases.norm(false, 1024, 4096);
  cases.rows_and_columns(512, 50304);
  cases.line(1 << 24);
  cases.embedding(4096, 768, 1024, 50304);
  cases.rope(2, 2048, 16, 128, 32);
  return cases.take();
}

}  // namespace lockstep::test
