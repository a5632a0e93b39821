// Cases of the kernels of dense layers, of losses and of the optimizer.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/documents.hpp"
#include "core/base/dropout.hpp"
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {

using K = KernelKind;

void ConformanceCases::gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
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

void ConformanceCases::norm(bool centered, std::int64_t rows, std::int64_t cols) {
  const std::vector<std::int64_t> dims = {rows, cols};
  ConformanceCase forward{.kind = centered ? K::LayerNormForward : K::RmsNormForward,
                          .dims = dims,
                          .scalars = {1e-5},
                          .in = {random(rows * cols, 3.0, 0.5), random(cols)},
                          .wide_out = "-w"};
  if (centered) forward.in.push_back(random(cols));
  add(forward);
  if (cols == 1) return;  // gradients are then rounding errors, which cannot be compared
  const Numbers stats = outputs(forward)[1], dy = random(rows * cols);
  for (const bool resid : {false, true}) {
    add({.kind = centered ? K::LayerNormBackwardInput : K::RmsNormBackwardInput,
         .dims = dims,
         .in = {dy, forward.in[0], forward.in[1], stats, resid ? random(rows * cols) : Numbers{}},
         .aliases = {resid ? 4 : -1},
         .wide_in = "---w-"});
  }
  for (const bool accumulate : {false, true}) {
    ConformanceCase weight{.kind = centered ? K::LayerNormBackwardWeight : K::RmsNormBackwardWeight,
                           .dims = dims,
                           .in = {dy, forward.in[0], stats},
                           .accumulate = accumulate,
                           .wide_in = "--w",
                           .wide_out = accumulate ? "ww" : ""};
    if (accumulate) weight.initial = {random(cols), random(cols)};
    add(weight);
  }
}

void ConformanceCases::head_norm(std::int64_t rows, std::int64_t heads, std::int64_t kv_heads,
                                 std::int64_t dim) {
  const std::vector<std::int64_t> dims = {rows, heads, kv_heads, dim};
  const std::int64_t n = rows * (heads + 2 * kv_heads) * dim;
  const ConformanceCase forward{.kind = K::HeadNormForward,
                                .dims = dims,
                                .scalars = {1e-5},
                                .in = {random(n, 3.0, 0.5), random(dim), random(dim)},
                                .wide_out = "-w"};
  add(forward);
  const Numbers stats = outputs(forward)[1], dy = random(n);
  add({.kind = K::HeadNormBackwardInput,
       .dims = dims,
       .in = {dy, forward.in[0], forward.in[1], forward.in[2], stats},
       .wide_in = "----w"});
  for (const bool accumulate : {false, true}) {
    ConformanceCase weight{.kind = K::HeadNormBackwardWeight,
                           .dims = dims,
                           .in = {dy, forward.in[0], stats},
                           .accumulate = accumulate,
                           .wide_in = "--w",
                           .wide_out = accumulate ? "ww" : ""};
    if (accumulate) weight.initial = {random(dim), random(dim)};
    add(weight);
  }
}

void ConformanceCases::rows_and_columns(std::int64_t rows, std::int64_t cols) {
  const std::int64_t n = rows * cols;
  add({.kind = K::ColumnSum, .dims = {rows, cols}, .in = {random(n)}});
  add({.kind = K::ColumnSum,
       .dims = {rows, cols},
       .in = {random(n)},
       .initial = {random(cols)},
       .accumulate = true,
       .wide_out = "w"});
  add({.kind = K::Add, .dims = {rows, cols}, .in = {random(n), random(n), random(cols)}});
  add({.kind = K::Add, .dims = {rows, cols}, .in = {random(n), random(n), {}}, .aliases = {0}});
  add({.kind = K::SwigluForward, .dims = {rows, cols}, .in = {random(2 * n, 6.0)}});
  add({.kind = K::SwigluBackward, .dims = {rows, cols}, .in = {random(n), random(2 * n, 6.0)}});
  add({.kind = K::GegluForward, .dims = {rows, cols}, .in = {wave(2 * n, 4.0)}});
  add({.kind = K::GegluBackward, .dims = {rows, cols}, .in = {wave(n, 1.0), wave(2 * n, 4.0)}});
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
  add({.kind = K::CrossEntropy,  // in float16 the gradient would otherwise lose digits
       .dims = {rows, cols},
       .scalars = {1e-4 / static_cast<double>(rows)},
       .in = {wave(n, 8.0), counted(rows, cols), {4096.0}},
       .wide_out = "-w"});
}

void ConformanceCases::cross_entropy_parts(std::int64_t rows, std::int64_t vocab,
                                           std::int64_t parts, bool ignored) {
  const std::int64_t cols = (vocab + parts - 1) / parts;
  Numbers targets = ids(rows, vocab);
  for (std::size_t r = 1; ignored && r < targets.size(); r += 3) targets[r] = kIgnoredTarget;
  if (ignored) {
    add({.kind = K::CrossEntropy,
         .dims = {rows, vocab},
         .scalars = {1.0 / static_cast<double>(rows)},
         .in = {random(rows * vocab, 8.0), targets},
         .wide_out = "-w"});
  }
  std::vector<ConformanceCase> each;
  Numbers stats;
  for (std::int64_t p = 0; p < parts; ++p) {
    Numbers own = targets;
    for (double& id : own) id -= id == kIgnoredTarget ? 0 : static_cast<double>(p * cols);
    const auto real = static_cast<double>(std::clamp<std::int64_t>(vocab - p * cols, 0, cols));
    each.push_back(
        {.kind = K::CrossEntropyStats,
         .dims = {rows, cols},
         .in = {random(rows * cols, 8.0), own, vocab % parts == 0 ? Numbers{} : Numbers{real}},
         .wide_out = "w"});
    const Numbers part = outputs(each.back())[0];
    stats.insert(stats.end(), part.begin(), part.end());
    add(each.back());
  }
  for (const ConformanceCase& part : each) {
    add({.kind = K::CrossEntropyParallel,
         .dims = {rows, cols, parts},
         .scalars = {1e-4 / static_cast<double>(rows)},
         .in = {part.in[0], part.in[1], stats, part.in[2], {4096.0}},
         .wide_in = "--w",
         .wide_out = "-w"});
    for (const bool accumulate : {false, true}) {
      add({.kind = K::CrossEntropyParallel,
           .dims = {rows, cols, parts},
           .scalars = {1.0 / static_cast<double>(rows)},
           .in = {part.in[0], part.in[1], stats, part.in[2]},
           .initial = {{}, accumulate ? random(1) : Numbers{}},
           .aliases = {accumulate ? 0 : -1},
           .accumulate = accumulate,
           .wide_in = "--w",
           .wide_out = "-w"});
    }
  }
}

void ConformanceCases::line(std::int64_t n) {
  add({.kind = K::GeluForward, .dims = {n}, .in = {random(n, 6.0)}});
  add({.kind = K::GeluBackward, .dims = {n}, .in = {random(n), random(n, 6.0)}});
  add({.kind = K::GeluBackward, .dims = {n}, .in = {random(n), random(n, 60.0)}, .aliases = {0}});
  add({.kind = K::SquaredReluForward, .dims = {n}, .in = {wave(n, 1.0)}});
  add({.kind = K::SquaredReluBackward,
       .dims = {n},
       .in = {wave(n, 1.0), wave(n, 1.0)},
       .aliases = {0}});
  add({.kind = K::SoftcapForward, .dims = {n}, .scalars = {1.5}, .in = {wave(n, 6.0)}});
  add({.kind = K::SoftcapBackward,
       .dims = {n},
       .scalars = {1.5},
       .in = {wave(n, 1.0), wave(n, 3.0)},
       .aliases = {0}});
  add({.kind = K::ReluForward, .dims = {n}, .in = {random(n)}});
  add({.kind = K::ReluBackward, .dims = {n}, .in = {random(n), random(n)}, .aliases = {0}});
  add({.kind = K::Fill, .dims = {n}, .scalars = {0.75}});
  add({.kind = K::Sum, .dims = {n}, .in = {random(n)}, .wide_out = "w"});
  add({.kind = K::Sum,
       .dims = {n},
       .in = {random(n)},
       .initial = {random(1)},
       .accumulate = true,
       .wide_out = "w"});
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
    for (const K kind : {K::AdamW, K::Adam}) {
      add({.kind = kind,
           .dims = {n},
           .scalars = {0.9, 0.95, 1e-8, 0.1},
           .in = {random(n), clipped ? Numbers{0.25} : Numbers{}},
           .initial = {random(n), random(n), random(n, 0.5, 0.6)},
           .wide_in = clipped ? "ww" : ""});
    }
    add({.kind = K::AdamW,
         .dims = {n},
         .scalars = {0.9, 0.95, 1e-8, 0.1},
         .in = {random(n), clipped ? Numbers{0.25} : Numbers{}},
         .initial = {random(n), random(n), random(n, 0.5, 0.6)},
         .stochastic = true,
         .wide_in = clipped ? "ww" : ""});
    add({.kind = K::Sgd,
         .dims = {n},
         .scalars = {0.9, 0.1},
         .in = {random(n), clipped ? Numbers{0.25} : Numbers{}},
         .initial = {random(n), random(n)},
         .wide_in = clipped ? "ww" : ""});
    // A mix that nearly cancels has the sign of its rounding; one of zeros has none.
    Numbers momentum = random(n), gradient = random(n);
    momentum[0] = gradient[0] = 0;
    for (std::size_t i = 0; i < momentum.size(); ++i) {
      const double mix = 0.9 * momentum[i] + (clipped ? 0.25 : 1) * 0.1 * gradient[i];
      if (std::abs(mix) < 1e-2) gradient[i] = momentum[i];
    }
    add({.kind = K::Lion,
         .dims = {n},
         .scalars = {0.9, 0.99, 0.1},
         .in = {gradient, clipped ? Numbers{0.25} : Numbers{}},
         .initial = {random(n), momentum},
         .wide_in = clipped ? "ww" : ""});
  }
  for (const bool starts : {false, true}) {
    add({.kind = K::ReplicaTerm,
         .dims = {n},
         .scalars = {1.0 / 3},
         .in = {random(n), starts ? random(n) : Numbers{}}});
    add({.kind = K::OuterSgd,
         .dims = {n},
         .scalars = {0.7, 0.9, starts ? 1.0 : 0.0},
         .in = {random(n)},
         .initial = {random(n), random(n)}});
  }
  // Weights in fewer digits than the term.
  for (const char* types : {"n", "w"}) {
    add({.kind = K::ReplicaTerm,
         .dims = {n},
         .scalars = {0.5},
         .in = {wave(n, 0.3), wave(n, 1.0)},
         .wide_in = types});
  }
  for (const bool clipped : {false, true}) {
    const Numbers coefficient = clipped ? Numbers{0.25} : Numbers{};
    const char* wide = clipped ? "ww" : "";
    for (const double nesterov : {0.0, 1.0}) {
      add({.kind = K::Momentum,
           .dims = {n},
           .scalars = {0.95, nesterov},
           .in = {random(n), coefficient},
           .initial = {random(n)},
           .wide_in = wide});
    }
    add({.kind = K::Muon,
         .dims = {n},
         .scalars = {2.5, 0.1},
         .in = {random(n), coefficient},
         .initial = {random(n)},
         .wide_in = wide});
  }
  // Moments and directions of other types than the weights.
  for (const char* types : {"w", "n"}) {
    add({.kind = K::Momentum,
         .dims = {n},
         .scalars = {0.95, 1},
         .in = {wave(n, 0.3), {}},
         .initial = {wave(n, 0.5)},
         .wide_out = types});
    add({.kind = K::Muon,
         .dims = {n},
         .scalars = {1, 0.1},
         .in = {wave(n, 0.3), {}},
         .initial = {wave(n, 1.0)},
         .wide_in = types});
  }
  add({.kind = K::Normalize,
       .dims = {n},
       .scalars = {1e-7},
       .in = {random(n), {2.0}},
       .wide_in = " w"});
  // Moments of other types than the weights.
  for (const char* moments : {" ww", " nn"}) {
    for (const K kind : {K::AdamW, K::Adam, K::Sgd, K::Lion}) {
      const bool one = kind == K::Sgd || kind == K::Lion;
      std::vector<Numbers> initial = {wave(n, 1.0), wave(n, 0.5), counted(n, 3)};
      if (one) initial.pop_back();
      add({.kind = kind,
           .dims = {n},
           .scalars = one ? std::vector{0.9, 0.1, 0.1} : std::vector{0.9, 0.95, 1e-8, 0.1},
           .in = {wave(n, 0.3), {}},
           .initial = initial,
           .wide_out = moments});
    }
  }
  // Parts of matrices: all of them, whose ranks have more rows or columns; or a shard that begins
  // in another unit's parameter, or in the middle of a row.
  const auto positive = [](std::int64_t count, std::int64_t below) {
    Numbers values = counted(count, below);
    for (double& value : values) value += 0.5;
    return values;
  };
  for (const std::int64_t divided : {0, 1, 2}) {
    for (const std::int64_t shard : {-1, 0, 1}) {
      const std::int64_t count = 2, rows = 3, cols = 5, size = count * rows * cols;
      const std::int64_t held = shard < 0 ? size + 3 : 17, shards = shard < 0 ? 1 : 2;
      const Numbers at = shard < 0 ? Numbers{} : Numbers{static_cast<double>(shard)};
      const std::vector<std::int64_t> dims = {held, 2, count, rows, size, divided, shards};
      const Numbers row = positive(count * rows, 3), col = positive(count * cols, 4);
      const Numbers coefficient = divided == 1 ? Numbers{0.25} : Numbers{};
      const Numbers gradient = random(held);
      add({.kind = K::FactorSums,
           .dims = dims,
           .scalars = {0.05},
           .in = {gradient, coefficient, random(held), at},
           .wide_in = " w",
           .wide_out = "www"});
      add({.kind = K::FactoredSquares,
           .dims = dims,
           .scalars = {0.05},
           .in = {gradient, coefficient, row, col, at},
           .wide_in = " www",
           .wide_out = "w"});
      std::vector<std::int64_t> moving = dims;
      moving.push_back(divided == 2 ? 1 : 0);
      add({.kind = K::Adafactor,
           .dims = moving,
           .scalars = {divided == 0 ? 0 : 1e-3, 0.5, 0.9, 0.1},
           .in = {gradient, coefficient, row, col, positive(count, 2), positive(count, 3), at},
           .initial = {random(held), divided == 1 ? Numbers{} : random(held)},
           .absent_out = {false, divided == 1},
           .wide_in = " wwwww"});
    }
  }
  for (const Numbers& coefficient : {Numbers{}, Numbers{0.25}}) {
    add({.kind = K::FactorMoments,
         .dims = {n},
         .scalars = {0.5, -0.8, 1e-3},
         .in = {positive(n, 3), coefficient},
         .initial = {positive(n, 2)},
         .wide_in = "w",
         .wide_out = "w"});
  }
  // A negative coefficient: a gradient is not finite, and nothing changes.
  const Numbers overflow(static_cast<std::size_t>(n), std::numeric_limits<double>::infinity());
  for (const K kind : {K::AdamW, K::Adam}) {
    add({.kind = kind,
         .dims = {n},
         .scalars = {0.9, 0.95, 1e-8, 0.1},
         .in = {overflow, {-1.0}},
         .initial = {wave(n, 1.0), wave(n, 0.5), counted(n, 3)},
         .wide_in = "ww"});
  }
  for (const K kind : {K::Sgd, K::Lion}) {
    add({.kind = kind,
         .dims = {n},
         .scalars = {0.9, 0.1, 0.1},
         .in = {overflow, {-1.0}},
         .initial = {wave(n, 1.0), wave(n, 0.5)},
         .wide_in = "ww"});
  }
  add({.kind = K::Momentum,
       .dims = {n},
       .scalars = {0.95, 1},
       .in = {overflow, {-1.0}},
       .initial = {wave(n, 0.5)},
       .wide_in = "ww"});
  add({.kind = K::Muon,
       .dims = {n},
       .scalars = {1, 0.1},
       .in = {wave(n, 0.5), {-1.0}},
       .initial = {wave(n, 1.0)},
       .wide_in = "ww"});
}

void ConformanceCases::adamw_8bit(std::int64_t n, std::int64_t block) {
  const auto state = [&](bool has_sign, double size, double from) {
    const QuantizedState shape{n, block, has_sign};
    Numbers values = wave(n, size);
    for (double& value : values) value = has_sign ? value : std::abs(value) + from;
    std::vector<std::byte> bytes(static_cast<std::size_t>(quantized_bytes(n, block)));
    write_quantized(shape, values.data(), 0, shape.blocks(), bytes.data());
    return decoded(bytes, DType::U8);
  };
  for (const bool clipped : {false, true}) {
    add({.kind = K::AdamW8bit,
         .dims = {n, block},
         .scalars = {0.9, 0.95, 1e-8, 0.1},
         .in = {wave(n, 0.3), clipped ? Numbers{0.25} : Numbers{}},
         .initial = {wave(n, 1.0), state(true, 0.5, 0), state(false, 0.1, 0.01)},
         .wide_in = clipped ? "ww" : ""});
  }
  const Numbers overflow(static_cast<std::size_t>(n), std::numeric_limits<double>::infinity());
  add({.kind = K::AdamW8bit,
       .dims = {n, block},
       .scalars = {0.9, 0.95, 1e-8, 0.1},
       .in = {overflow, {-1.0}},
       .initial = {wave(n, 1.0), state(true, 0.5, 0), state(false, 0.1, 0.01)},
       .wide_in = "ww"});
}

void ConformanceCases::clip(std::int64_t blocks, double max_norm) {
  add({.kind = K::ClipCoefficient,
       .dims = {blocks},
       .scalars = {max_norm},
       .in = {random(blocks, 0.5, 0.6)},
       .wide_in = "w",
       .wide_out = "ww"});
  Numbers scaled = wave(blocks, 200.0);
  for (double& square : scaled) square *= square;
  add({.kind = K::ClipCoefficient,
       .dims = {blocks},
       .scalars = {max_norm},
       .in = {scaled, {512.0}},
       .wide_in = "w",
       .wide_out = "ww"});
}

void ConformanceCases::embedding(std::int64_t tokens, std::int64_t cols, std::int64_t seq,
                                 std::int64_t vocab) {
  const std::vector<std::int64_t> dims = {tokens, cols, seq, vocab};
  for (const bool positions : {false, true}) {
    // Some ids lie outside the table, as those of rows that another rank holds.
    Numbers own = ids(tokens, vocab + 2);
    for (double& id : own) id -= 1;
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

void ConformanceCases::dropout(std::int64_t rows, std::int64_t cols) {
  // A row in four has a key by which nothing is dropped.
  Numbers keys;
  for (std::int64_t r = 0; r < rows; ++r) {
    keys.push_back(r % 4 == 3 ? -1.0 : static_cast<double>(dropout_key(5, r, 7)));
  }
  const Numbers x = wave(rows * cols, 1.0), none;
  for (const bool residual : {false, true}) {
    for (const bool bias : {false, true}) {
      add({.kind = K::Dropout,
           .dims = {rows, cols},
           .scalars = {0.25, 1},
           .in = {x, keys, residual ? wave(rows * cols, 0.5) : none, bias ? wave(cols, 0.3) : none},
           .aliases = {0}});
    }
  }
  // The third of the parts into which ranks divide the columns.
  add({.kind = K::Dropout,
       .dims = {rows, cols},
       .scalars = {0.25, 5},
       .in = {x, keys, none, none, {2.0}}});
}

void ConformanceCases::bias(std::int64_t rows, std::int64_t cols) {
  const Numbers x = random(rows * cols), b = random(cols);
  add({.kind = K::Add, .dims = {rows, cols}, .in = {x, {}, b}});
  add({.kind = K::Add, .dims = {rows, cols}, .in = {x, {}, b}, .aliases = {0}});
  add({.kind = K::Add, .dims = {rows, cols}, .in = {x, {}, {}}});
}

void ConformanceCases::scale(std::int64_t n) {
  for (const std::vector<int>& aliases : {std::vector<int>{}, std::vector<int>{0}}) {
    add({.kind = K::Scale, .dims = {n}, .scalars = {1.75}, .in = {random(n)}, .aliases = aliases});
  }
}

}  // namespace lockstep::test
