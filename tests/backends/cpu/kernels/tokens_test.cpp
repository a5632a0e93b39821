#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

struct Shape {
  std::size_t tokens, cols, seq, vocab;
};
const Shape kShapes[] = {{1, 1, 1, 1}, {6, 5, 3, 4}, {32, 48, 16, 7}, {64, 130, 32, 300}};

TEST_CASE("embedding adds the token's row and the position's", "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    const Values ids = random_ids(s.tokens, 1, static_cast<unsigned>(s.vocab));
    const Values table = random_values(s.vocab * s.cols, 2);
    const Values positions = random_values(s.seq * s.cols, 3);
    for (const bool with_positions : {true, false}) {
      Values y(s.tokens * s.cols);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t t = i / s.cols, c = i % s.cols;
        y[i] = table[static_cast<std::size_t>(ids[t]) * s.cols + c] +
               (with_positions ? positions[t % s.seq * s.cols + c] : 0);
      }
      KernelCase c{KernelKind::EmbeddingForward};
      c.dims = {static_cast<std::int64_t>(s.tokens), static_cast<std::int64_t>(s.cols),
                static_cast<std::int64_t>(s.seq), static_cast<std::int64_t>(s.vocab)};
      c.in = {{ids}, {table}, {with_positions ? positions : Values{}}};
      c.out = {{y.size()}};
      check_case(c, {y}, 1e-7, 0);
    }
  }
}

TEST_CASE("embedding's gradient adds every token into its row, repeated tokens too",
          "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    const Values ids = random_ids(s.tokens, 1, static_cast<unsigned>(s.vocab));
    const Values dy = random_values(s.tokens * s.cols, 2);
    for (const bool accumulate : {false, true}) {
      const Values old_table = random_values(s.vocab * s.cols, 3);
      const Values old_positions = random_values(s.seq * s.cols, 4);
      Values table = accumulate ? old_table : Values(old_table.size(), 0);
      Values positions = accumulate ? old_positions : Values(old_positions.size(), 0);
      for (std::size_t i = 0; i < dy.size(); ++i) {
        const std::size_t t = i / s.cols, c = i % s.cols;
        table[static_cast<std::size_t>(ids[t]) * s.cols + c] += dy[i];
        positions[t % s.seq * s.cols + c] += dy[i];
      }
      KernelCase c{KernelKind::EmbeddingBackward};
      c.dims = {static_cast<std::int64_t>(s.tokens), static_cast<std::int64_t>(s.cols),
                static_cast<std::int64_t>(s.seq), static_cast<std::int64_t>(s.vocab)};
      c.in = {{ids}, {dy}};
      c.out = {{table.size()}, {positions.size()}};
      c.accumulate = accumulate;
      if (accumulate) {
        c.out[0].initial = old_table;
        c.out[1].initial = old_positions;
      }
      check_case(c, {table, positions}, 1e-6, 1e-15);
      c.out[1].n = 0;
      check_case(c, {table}, 1e-6, 1e-15);
    }
  }
}

KernelCase cross_entropy_case(std::size_t rows, std::size_t cols, double scale,
                              const Values& logits, const Values& targets, bool in_place) {
  KernelCase c{KernelKind::CrossEntropy};
  c.dims = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
  c.scalars = {scale};
  c.in = {{logits}, {targets}};
  c.out = {{rows * cols, in_place ? 0 : -1}, {1}};
  return c;
}

TEST_CASE("cross entropy and its gradient equal the log of the softmax", "[backends][cpu]") {
  for (const auto& [rows, cols] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {1, 2}, {3, 7}, {20, 64}, {5, 257}, {4, 20000}}) {
    INFO(rows << "x" << cols);
    const double scale = 1.0 / static_cast<double>(rows);
    const Values logits = random_values(rows * cols, 1, 8.0);
    const Values targets = random_ids(rows, 2, static_cast<unsigned>(cols));
    Values gradient(rows * cols);
    double loss = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < cols; ++c) sum += std::exp(logits[r * cols + c]);
      const auto target = static_cast<std::size_t>(targets[r]);
      for (std::size_t c = 0; c < cols; ++c) {
        gradient[r * cols + c] =
            scale * (std::exp(logits[r * cols + c]) / sum - (c == target ? 1 : 0));
      }
      loss += scale * (std::log(sum) - logits[r * cols + target]);
    }
    for (const bool in_place : {false, true}) {
      KernelCase c = cross_entropy_case(rows, cols, scale, logits, targets, in_place);
      check_case(c, {cols > 1 ? gradient : Values{}, cols > 1 ? Values{loss} : Values{}}, 2e-6,
                 1e-14);
      for (const bool f64 : {false, true}) {
        c.accumulate = true;
        c.out[1].initial = {2.5};
        c.out[1].f64 = f64;
        check_case(c, {cols > 1 ? gradient : Values{}, Values{2.5 + loss}}, 2e-6, 1e-14);
      }
    }
    if (cols == 1) {  // one class: nothing to lose, nothing to learn
      const auto out = run(cross_entropy_case(rows, cols, scale, logits, targets, false));
      CHECK(out[0][0] == 0);
      CHECK(out[1][0] == 0);
    }
  }
}

TEST_CASE("ids outside the table stand for rows of zeros, which learn nothing", "[backends][cpu]") {
  const Values table = random_values(3 * 5, 1), dy = random_values(4 * 5, 2);
  const Values ids = {-1, 2, 3, 2};
  KernelCase forward{KernelKind::EmbeddingForward};
  forward.dims = {4, 5, 4, 3};
  forward.in = {{ids}, {table}, {}};
  forward.out = {{20}};
  Values y(20, 0), gradient(15, 0);
  for (std::size_t c = 0; c < 5; ++c) {
    y[5 + c] = y[15 + c] = table[10 + c];
    gradient[10 + c] = dy[5 + c] + dy[15 + c];
  }
  check_case(forward, {y}, 0, 0);
  KernelCase backward{KernelKind::EmbeddingBackward};
  backward.dims = {4, 5, 4, 3};
  backward.in = {{ids}, {dy}};
  backward.out = {{15}, {}};
  check_case(backward, {gradient}, 1e-7, 1e-15);
}

TEST_CASE("cross entropy over parts of the vocabulary equals that over all of it",
          "[backends][cpu]") {
  struct Parts {
    std::size_t rows, vocab, parts;  // the last parts may hold padding, or nothing else
  };
  for (const Parts& s : {Parts{5, 12, 1}, Parts{7, 64, 4}, Parts{3, 61, 2}, Parts{4, 5, 4}}) {
    INFO(s.rows << "x" << s.vocab << " in " << s.parts);
    const std::size_t cols = (s.vocab + s.parts - 1) / s.parts;
    const Values logits = random_values(s.rows * s.vocab, 1, 8.0);
    const Values targets = random_ids(s.rows, 2, static_cast<unsigned>(s.vocab));
    const auto whole = run(cross_entropy_case(s.rows, s.vocab, 0.25, logits, targets, false));
    // Each part has its logits, padded with what must not count, its targets and its columns.
    std::vector<Values> x(s.parts), ids(s.parts), columns(s.parts), gradients(s.parts);
    Values stats;
    for (std::size_t p = 0; p < s.parts; ++p) {
      const std::size_t first = std::min(p * cols, s.vocab);
      const std::size_t real = std::min(cols, s.vocab - first);
      columns[p] = {static_cast<double>(real)};
      for (std::size_t r = 0; r < s.rows; ++r) {
        ids[p].push_back(targets[r] - static_cast<double>(p * cols));
        for (std::size_t c = 0; c < cols; ++c) {
          x[p].push_back(c < real ? logits[r * s.vocab + first + c] : 1000.0);
          gradients[p].push_back(c < real ? whole[0][r * s.vocab + first + c] : 0.0);
        }
      }
      KernelCase c{KernelKind::CrossEntropyStats};
      c.dims = {static_cast<std::int64_t>(s.rows), static_cast<std::int64_t>(cols)};
      c.in = {{x[p]}, {ids[p]}, {columns[p]}};
      c.out = {{3 * s.rows}};
      const Values part = run(c)[0];
      stats.insert(stats.end(), part.begin(), part.end());
    }
    for (std::size_t p = 0; p < s.parts; ++p) {
      KernelCase c{KernelKind::CrossEntropyParallel};
      c.dims = {static_cast<std::int64_t>(s.rows), static_cast<std::int64_t>(cols),
                static_cast<std::int64_t>(s.parts)};
      c.scalars = {0.25};
      c.in = {{x[p]}, {ids[p]}, {stats}, {columns[p]}};
      c.out = {{s.rows * cols, 0}, {1}};
      check_case(c, {gradients[p], whole[1]}, 2e-6, 1e-14);
      c.accumulate = true;
      c.out[1].initial = {2.5};
      check_case(c, {gradients[p], {2.5 + whole[1][0]}}, 2e-6, 1e-14);
    }
  }
}

TEST_CASE("add sums rows, residual and bias", "[backends][cpu]") {
  for (const auto& [rows, cols] :
       std::vector<std::pair<std::size_t, std::size_t>>{{1, 1}, {3, 7}, {64, 130}}) {
    const Values x = random_values(rows * cols, 1), residual = random_values(rows * cols, 2);
    const Values bias = random_values(cols, 3);
    for (const bool with_bias : {true, false}) {
      Values y(rows * cols);
      for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = x[i] + (with_bias ? bias[i % cols] : 0) + residual[i];
      }
      KernelCase c{KernelKind::Add};
      c.dims = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols)};
      c.in = {{x}, {residual}, {with_bias ? bias : Values{}}};
      c.out = {{y.size()}};
      check_case(c, {y}, 2e-7, 0);
    }
  }
}

TEST_CASE("cross entropy's gradient equals the finite difference of its loss", "[backends][cpu]") {
  const std::size_t rows = 6, cols = 41;
  const Values logits = random_values(rows * cols, 1, 3.0), targets = random_ids(rows, 2, cols);
  const Values direction = random_values(rows * cols, 3);
  const auto loss_at = [&](double step) {
    Values x = logits;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += step * direction[i];
    return run(cross_entropy_case(rows, cols, 0.5, x, targets, false))[1][0];
  };
  const Values gradient = run(cross_entropy_case(rows, cols, 0.5, logits, targets, false))[0];
  CHECK((loss_at(1e-5) - loss_at(-1e-5)) / 2e-5 == Approx(dot(gradient, direction)).epsilon(1e-7));
}

TEST_CASE("cross entropy holds for logits beyond the range of exp", "[backends][cpu]") {
  for (const DType dtype : {DType::F32, DType::F64}) {
    KernelCase c =
        cross_entropy_case(2, 3, 1.0, {2000, 0, -2000, -5000, -4000, -5000}, {1, 1}, false);
    c.dtype = dtype;
    for (const auto& out : run_everywhere(c)) {
      CHECK(out[1][0] == Approx(2000.0));  // row 0: 2000 - 0; row 1: 0
      CHECK(out[0] == Values{1, -1, 0, 0, 0, 0});
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu::test
