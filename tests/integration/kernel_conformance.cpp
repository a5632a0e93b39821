#include "tests/integration/kernel_conformance.hpp"

#include <algorithm>

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
         .absent_out = {false, true},
         .wide_in = "--w-"});
  }

  /// Of one rank among `parts`, whose keys and values are gathered: `seq` own tokens, half of them
  /// from the front of the sequence and half from the back.
  void gathered_attention(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                          std::int64_t kv_heads, std::int64_t dim, std::int64_t parts) {
    const std::vector<std::int64_t> dims = {batch, seq, heads, kv_heads, dim, parts};
    const std::int64_t qkv = batch * seq * (heads + 2 * kv_heads) * dim;
    const auto add_pieces = [&](std::int64_t rank, Numbers& to) {
      to.push_back(static_cast<double>(rank * (seq / 2)));
      to.push_back(static_cast<double>((2 * parts - 1 - rank) * (seq / 2)));
    };
    for (std::int64_t rank = 0; rank < parts; ++rank) {
      Numbers starts;
      add_pieces(rank, starts);
      for (std::int64_t part = 0; part < parts; ++part) add_pieces(part, starts);
      const ConformanceCase forward{
          .kind = K::AttentionForward,
          .dims = dims,
          .in = {random(qkv, 2.0), random(parts * batch * seq * 2 * kv_heads * dim, 2.0), starts},
          .wide_out = "-w"};
      add(forward);
      const auto saved = outputs(forward);
      add({.kind = K::AttentionBackward,
           .dims = dims,
           .in = {forward.in[0], saved[0], saved[1], random(batch * seq * heads * dim),
                  forward.in[1], starts},
           .initial = {random(qkv)},  // whose keys and values stay
           .wide_in = "--w---"});
    }
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
    add({.kind = K::Add, .dims = {rows, cols}, .in = {random(n), random(n), random(cols)}});
    add({.kind = K::Add, .dims = {rows, cols}, .in = {random(n), random(n), {}}, .aliases = {0}});
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

  /// The vocabulary in parts, the last of which may hold padding, or nothing else.
  void cross_entropy_parts(std::int64_t rows, std::int64_t vocab, std::int64_t parts) {
    const std::int64_t cols = (vocab + parts - 1) / parts;
    const Numbers targets = ids(rows, vocab);
    std::vector<ConformanceCase> each;
    Numbers stats;
    for (std::int64_t p = 0; p < parts; ++p) {
      Numbers own = targets;
      for (double& id : own) id -= static_cast<double>(p * cols);
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
      // Some lie outside: rows of a table that another rank holds.
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

  void convolution(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t in,
                   std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const std::vector<std::int64_t> dims = {batch, height, width, in, out, kernel, stride};
    const std::int64_t pixels = batch * height * width * in, weights = out * kernel * kernel * in;
    const std::int64_t results =
        batch * ((height + stride - 1) / stride) * ((width + stride - 1) / stride) * out;
    const Numbers x = random(pixels), w = random(weights), dy = random(results);
    add({.kind = K::Conv2dForward, .dims = dims, .in = {x, w}});
    add({.kind = K::Conv2dBackwardInput, .dims = dims, .in = {dy, w, {}}});
    add({.kind = K::Conv2dBackwardInput,
         .dims = dims,
         .in = {dy, w, random(pixels)},
         .aliases = {2}});
    add({.kind = K::Conv2dBackwardWeight, .dims = dims, .in = {dy, x}});
    for (const char* wide : {"", "w"}) {
      add({.kind = K::Conv2dBackwardWeight,
           .dims = dims,
           .in = {dy, x},
           .initial = {random(weights)},
           .accumulate = true,
           .wide_out = wide});
    }
  }

  void batch_norm(std::int64_t rows, std::int64_t cols) {
    const std::vector<std::int64_t> dims = {rows, cols};
    const Numbers x = random(rows * cols, 3.0, 0.5), w = random(cols), b = random(cols);
    const Numbers dy = random(rows * cols), resid = random(rows * cols);
    const ConformanceCase statistics{
        .kind = K::BatchNormStatistics, .dims = dims, .in = {x}, .wide_out = "w"};
    const Numbers stats = outputs(statistics)[0];
    const ConformanceCase gradients{.kind = K::BatchNormBackwardSums,
                                    .dims = dims,
                                    .scalars = {1e-5},
                                    .in = {dy, x, stats},
                                    .wide_in = "--w",
                                    .wide_out = "w"};
    const Numbers sums = outputs(gradients)[0];
    add(statistics);
    add(gradients);
    add({.kind = K::BatchNormForward,
         .dims = dims,
         .scalars = {1e-5},
         .in = {x, w, b, stats, {}},
         .wide_in = "---w"});
    add({.kind = K::BatchNormForward,
         .dims = dims,
         .scalars = {1e-5},
         .in = {x, w, b, stats, resid},
         .wide_in = "---w"});
    for (const int alias : {-1, 0}) {
      add({.kind = K::BatchNormBackwardInput,
           .dims = dims,
           .scalars = {1e-5, static_cast<double>(rows)},
           .in = {dy, x, w, stats, sums},
           .aliases = {alias},
           .wide_in = "---ww"});
    }
    add({.kind = K::BatchNormCombine,
         .dims = {3, cols},
         .in = {random(6 * cols, 0.5, 1.0)},
         .wide_in = "w",
         .wide_out = "w"});
    for (const char* wide : {"", "w"}) {
      add({.kind = K::BatchNormRunning,
           .dims = {cols},
           .scalars = {0.1, 8.0 / 7},
           .in = {stats},
           .initial = {random(2 * cols)},
           .wide_in = "w",
           .wide_out = wide});
    }
    add({.kind = K::BatchNormBackwardWeight, .dims = {cols}, .in = {sums}, .wide_in = "w"});
    add({.kind = K::BatchNormBackwardWeight,
         .dims = {cols},
         .in = {sums},
         .initial = {random(cols), random(cols)},
         .accumulate = true,
         .wide_in = "w",
         .wide_out = "ww"});
  }

  void pooling(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t channels,
               std::int64_t stride) {
    const std::vector<std::int64_t> dims = {batch, height, width, channels, 3, stride};
    const std::int64_t results =
        batch * ((height + stride - 1) / stride) * ((width + stride - 1) / stride) * channels;
    const Numbers x = ids(batch * height * width * channels, 4);  // few values: windows hold equals
    add({.kind = K::MaxPoolForward, .dims = dims, .in = {x}});
    add({.kind = K::MaxPoolBackward, .dims = dims, .in = {random(results), x}});
    const std::vector<std::int64_t> all = {batch, height * width, channels};
    add({.kind = K::AveragePoolForward, .dims = all, .in = {random(std::ssize(x))}});
    add({.kind = K::AveragePoolBackward, .dims = all, .in = {random(batch * channels)}});
  }

  void grouped_gemm(std::int64_t groups, std::int64_t chunks, std::int64_t m, std::int64_t n,
                    std::int64_t k) {
    const std::int64_t parts = groups * chunks;
    for (const std::int64_t tb : {0, 1}) {
      const std::vector<std::int64_t> dims = {groups, chunks, m, n, k, tb};
      const Numbers a = random(parts * m * k), b = random(groups * k * n);
      add({.kind = K::GroupedGemm, .dims = dims, .in = {a, b, {}}});
      add({.kind = K::GroupedGemm, .dims = dims, .in = {a, b, random(groups * n)}});
    }
    // As chunks times m rows of gradients n wide.
    for (const bool accumulate : {false, true}) {
      ConformanceCase weight{.kind = K::GroupedGemmWeight,
                             .dims = {groups, chunks, m, n, k},
                             .in = {random(parts * m * n), random(parts * m * k)},
                             .accumulate = accumulate,
                             .absent_out = {false, accumulate},
                             .wide_out = "ww"};
      if (accumulate) weight.initial = {random(groups * n * k), {}};
      add(weight);
    }
  }

  /// `capacity` may be too small for all.
  void route(std::int64_t tokens, std::int64_t experts, std::int64_t choices, std::int64_t capacity,
             std::int64_t cols) {
    const std::vector<std::int64_t> dims = {tokens, experts, choices, capacity};
    const ConformanceCase forward{.kind = K::RouteForward,
                                  .dims = dims,
                                  .in = {random(tokens * experts, 4.0)},
                                  .wide_in = "w",
                                  .wide_out = "ww--"};
    add(forward);
    const auto routed = outputs(forward);
    const Numbers &probs = routed[0], &gates = routed[1], &slots = routed[2];
    add({.kind = K::RouteBackward,
         .dims = dims,
         .scalars = {0.01},
         .in = {random(tokens * choices), probs, slots},
         .wide_in = "ww-",
         .wide_out = "w"});
    const std::vector<std::int64_t> combined = {tokens, cols, choices, experts * capacity};
    const Numbers x = random(experts * capacity * cols);
    for (const bool resid : {false, true}) {
      add({.kind = K::CombineForward,
           .dims = combined,
           .in = {x, gates, slots, resid ? random(tokens * cols) : Numbers{}},
           .wide_in = "-w--"});
    }
    add({.kind = K::CombineBackward,
         .dims = combined,
         .in = {random(tokens * cols), x, gates, slots},
         .wide_in = "--w-",
         .wide_out = "-w"});
  }

  void rope(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t dim,
            std::int64_t row_heads) {
    for (const std::int64_t inverse : {0, 1}) {
      add({.kind = K::Rope,
           .dims = {batch, seq, heads, dim, row_heads, inverse},
           .scalars = {10000.0},
           .in = {random(batch * seq * row_heads * dim)},
           .aliases = {0}});
      if (seq % 2 != 0) continue;
      add({.kind = K::Rope,  // two pieces, from elsewhere in the sequence
           .dims = {batch, seq, heads, dim, row_heads, inverse},
           .scalars = {10000.0},
           .in = {random(batch * seq * row_heads * dim), {static_cast<double>(seq), 3.0 * seq}},
           .aliases = {0}});
    }
  }

  void regroup(std::int64_t rows, std::int64_t parts, std::int64_t a, std::int64_t b) {
    for (const std::int64_t inverse : {0, 1}) {
      add({.kind = K::Regroup,
           .dims = {rows, parts, a, b, b, inverse},
           .in = {random(rows * parts * (a + 2 * b))}});
    }
  }

 private:
  std::mt19937 engine_{17};
  std::vector<ConformanceCase> cases_;
};

}  // namespace

FusedPair::FusedPair(std::int64_t m, std::int64_t n, std::int64_t k, bool backward, DType dtype)
    : backward_(backward), dtype_(dtype) {
  std::mt19937 random(5);
  const auto values = [&](std::int64_t count) {
    Numbers v(static_cast<std::size_t>(count));
    for (double& x : v) x = rounded(static_cast<double>(random()) / 2147483648.0 - 1.0, dtype);
    return v;
  };
  values_ = {values(m * k), values(n * k), values(backward ? m * n : n), values(m * n),
             values(m * n)};
  const auto at = [dtype](std::int16_t formal) { return Operand{formal, dtype, 0}; };
  product_.kind = KernelKind::Gemm;
  product_.dtype = next_.dtype = dtype;
  product_.dims = {m, n, k, 0, backward ? 0 : 1};
  product_.in = {at(0), at(1), backward ? Operand{} : at(2), {}};
  product_.out = {at(3)};
  next_.kind = backward ? KernelKind::GeluBackward : KernelKind::GeluForward;
  next_.dims = {m * n};
  next_.in = backward ? std::vector{at(3), at(2)} : std::vector{at(3)};
  next_.out = {at(4)};
}

std::vector<Numbers> FusedPair::run(cuda::Driver& gpu, bool fused) const {
  const auto take = [](auto result) {
    if (!result) FAIL(to_string(result.error()));
    return *result;
  };
  const auto done = [](const Result<void>& result) {
    if (!result) FAIL(to_string(result.error()));
  };
  const cuda::StreamHandle stream = take(gpu.create_stream(cuda::Priority::Normal));
  std::vector<std::byte*> memory, pinned;
  for (const Numbers& v : values_) {
    const std::vector<std::byte> bytes = encoded(v, dtype_);
    const auto size = static_cast<std::int64_t>(bytes.size());
    memory.push_back(take(gpu.allocate(cuda::Memory::Device, size)));
    pinned.push_back(take(gpu.allocate(cuda::Memory::PinnedHost, size)));
    std::memcpy(pinned.back(), bytes.data(), bytes.size());
    done(gpu.copy(stream, memory.back(), pinned.back(), size));
  }
  std::byte* const scratch = take(
      gpu.allocate(cuda::Memory::Device, std::max<std::int64_t>(gpu.scratch_bytes(product_), 1)));
  const auto call_of = [&](const Kernel& kernel) {
    cuda::KernelCall call{&kernel, {}, {}, scratch, {}};
    const auto address = [&](const Operand& operand) -> std::byte* {
      return operand.present() ? memory[static_cast<std::size_t>(operand.formal)] : nullptr;
    };
    std::transform(kernel.in.begin(), kernel.in.end(), call.in.begin(), address);
    std::transform(kernel.out.begin(), kernel.out.end(), call.out.begin(), address);
    return call;
  };
  bool ran = true;
  if (fused) {
    ran = take(gpu.launch_fused(stream, call_of(product_), call_of(next_)));
  } else {
    done(gpu.launch(stream, call_of(product_)));
    done(gpu.launch(stream, call_of(next_)));
  }
  std::vector<Numbers> results;
  for (const std::size_t b : {std::size_t{3}, std::size_t{4}}) {
    if (!ran || (backward_ && b == 3)) continue;
    std::vector<std::byte> bytes = encoded(values_[b], dtype_);
    done(gpu.copy(stream, pinned[b], memory[b], static_cast<std::int64_t>(bytes.size())));
    done(gpu.synchronize(stream));
    std::memcpy(bytes.data(), pinned[b], bytes.size());
    results.push_back(decoded(bytes, dtype_));
  }
  done(gpu.synchronize(stream));
  for (std::byte* block : memory) gpu.release(cuda::Memory::Device, block);
  for (std::byte* block : pinned) gpu.release(cuda::Memory::PinnedHost, block);
  gpu.release(cuda::Memory::Device, scratch);
  gpu.release(stream);
  return results;
}

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
  cases.gathered_attention(1, 2, 1, 1, 3, 1);
  cases.gathered_attention(2, 10, 2, 1, 5, 3);
  cases.gathered_attention(1, 70, 2, 2, 20, 2);
  cases.gathered_attention(1, 14, 2, 1, 64, 2);
  cases.gathered_attention(1, 256, 2, 1, 64, 2);
  cases.gathered_attention(2, 150, 1, 1, 128, 2);
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
  cases.rows_and_columns(1, 999);
  cases.cross_entropy_parts(5, 12, 1);
  cases.cross_entropy_parts(7, 64, 4);
  cases.cross_entropy_parts(3, 61, 2);
  cases.cross_entropy_parts(4, 5, 4);
  cases.cross_entropy_parts(2, 2400, 2);
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
  cases.rope(2, 10, 2, 8, 3);
  cases.regroup(1, 1, 1, 0);
  cases.regroup(9, 3, 5, 2);
  cases.regroup(17, 2, 32, 8);
  cases.grouped_gemm(1, 1, 1, 1, 1);
  cases.grouped_gemm(3, 2, 5, 7, 4);
  cases.grouped_gemm(2, 1, 24, 16, 32);
  cases.grouped_gemm(2, 3, 24, 16, 32);
  cases.route(1, 2, 1, 1, 3);
  cases.route(30, 4, 2, 16, 8);
  cases.route(40, 8, 2, 5, 5);
  cases.route(600, 3, 1, 150, 16);
  // Products (1x1), strides that do and do not divide, one position, many channels, many images.
  cases.convolution(1, 1, 1, 1, 1, 1, 1);
  cases.convolution(2, 5, 4, 3, 2, 3, 1);
  cases.convolution(2, 7, 7, 5, 4, 3, 2);
  cases.convolution(1, 9, 6, 3, 8, 7, 2);
  cases.convolution(3, 4, 4, 33, 5, 1, 1);
  cases.convolution(2, 5, 6, 4, 9, 1, 2);
  cases.convolution(5, 12, 10, 8, 7, 3, 1);
  cases.batch_norm(3, 5);
  cases.batch_norm(16, 16);
  cases.batch_norm(50, 33);
  cases.batch_norm(1300, 24);
  cases.pooling(2, 5, 6, 3, 2);
  cases.pooling(1, 4, 4, 40, 1);
  cases.pooling(1, 1, 1, 2, 2);
  if (!large) return cases.take();
  cases.convolution(32, 56, 56, 64, 64, 3, 1);
  cases.convolution(16, 224, 224, 3, 64, 7, 2);
  cases.batch_norm(32 * 56 * 56, 64);
  cases.pooling(32, 112, 112, 64, 2);
  cases.gemm(1024, 768, 3072);
  cases.gemm(1000, 2304, 768);
  cases.attention(2, 1024, 12, 12, 64);
  cases.attention(1, 1000, 8, 2, 128);
  cases.gathered_attention(1, 1024, 8, 2, 128, 2);
  cases.norm(true, 4096, 768);
  cases.norm(false, 1024, 4096);
  cases.rows_and_columns(512, 50304);
  cases.cross_entropy_parts(512, 50257, 2);
  cases.line(1 << 24);
  cases.embedding(4096, 768, 1024, 50304);
  cases.rope(2, 2048, 16, 128, 32);
  cases.regroup(4096, 8, 512, 128);
  return cases.take();
}

}  // namespace lockstep::test
