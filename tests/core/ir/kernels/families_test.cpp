// Compares the counts of the rows with oracles: loops over what a definition touches, and
// definitions that are run with numbers which count arithmetic.
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/base/window.hpp"
#include "tests/catch.hpp"
#include "tests/core/ir/kernels/make_kernel.hpp"

using namespace lockstep;
using test::make_kernel;

namespace {

/// A number that counts additions, multiplications, divisions, and each function of a number as
/// one.
struct Counted {
  double v = 0;
  static inline int operations = 0;
  static Counted done(double v) {
    ++operations;
    return {v};
  }
  friend Counted operator+(Counted a, Counted b) { return done(a.v + b.v); }
  friend Counted operator-(Counted a, Counted b) { return done(a.v - b.v); }
  friend Counted operator*(Counted a, Counted b) { return done(a.v * b.v); }
};
Counted function(Counted x) { return Counted::done(std::tanh(x.v)); }

template <class F>
double operations_of(const F& definition) {
  Counted::operations = 0;
  definition();
  return Counted::operations;
}

double flops(KernelKind kind, std::array<std::int64_t, kMaxDims> dims) {
  return work(make_kernel(kind, dims)).flops.v;
}
double flops_of_one(KernelKind kind) { return flops(kind, {1, 1, 1, 1, 1, 1, 1, 0}); }

std::int64_t bytes(const Kernel& kernel) { return work(kernel).bytes.v; }

}  // namespace

TEST_CASE("a product is as many multiply-adds as its three loops, however it is stored",
          "[core][ir]") {
  double loops = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 5; ++j) {
      for (int l = 0; l < 7; ++l) ++loops;
    }
  }
  for (const std::int64_t ta : {0, 1}) {
    for (const std::int64_t tb : {0, 1}) {
      CHECK(flops(KernelKind::Gemm, {3, 5, 7, ta, tb}) == 2 * loops);
    }
  }
  CHECK(flops(KernelKind::ColumnSum, {4, 5}) == 20);  // an addition each
}

TEST_CASE("ranks that divide a sequence in balanced pairs see its lower triangle together",
          "[core][ir]") {
  constexpr std::int64_t kBatch = 2, kHeads = 6, kHeadDim = 8, kSeq = 12;
  double pairs = 0;
  for (int query = 0; query < kSeq; ++query) {
    for (int key = 0; key <= query; ++key) ++pairs;
  }
  // Per score and head: a multiply-add per element of q·k, and one of the weighted sum of v.
  const double whole = 4 * kHeadDim * pairs * kBatch * kHeads;
  for (const std::int64_t parts : {0, 1, 2, 3}) {
    const std::int64_t ranks = std::max<std::int64_t>(parts, 1);
    const std::array<std::int64_t, kMaxDims> dims = {kBatch, kSeq / ranks, kHeads,
                                                     3,      kHeadDim,     parts};
    CHECK(double(ranks) * flops(KernelKind::AttentionForward, dims) == whole);
    // Keys that come by one rank after the other: its own, then those of each other rank.
    const std::array<std::int64_t, kMaxDims> one = {kBatch, kSeq / ranks, kHeads, 3, kHeadDim, 1};
    Kernel others = make_kernel(KernelKind::AttentionForward, one);
    others.accumulate = true;
    CHECK(double(ranks) * (flops(KernelKind::AttentionForward, one) +
                           double(ranks - 1) * work(others).flops.v) ==
          whole);
    // Scores again, and gradients of the weights, of v, of q and of k.
    CHECK(double(ranks) * flops(KernelKind::AttentionBackward, dims) == 2.5 * whole);
  }
  // Rotation of a pair: four multiplications and two additions for two elements.
  CHECK(flops(KernelKind::Rope, {2, 3, 4, 6, 9, 0}) == 6 * 2 * 3 * 4 * 3);
}

TEST_CASE("latent attention's parts are moved once, and what heads share is summed over them",
          "[core][ir]") {
  const std::array<std::int64_t, kMaxDims> dims = {3, 2, 4, 6, 5};
  const Kernel join = make_kernel(KernelKind::JoinLatent, dims);
  const Kernel part = make_kernel(KernelKind::PartLatent, dims);
  CHECK(work(join).bytes == Bytes{(60 + 54 + 18 + 180) * 4});
  // What stands for the zeros before values is not read.
  CHECK(work(part).bytes == Bytes{(180 - 3 * 2 * 5 + 60 + 54 + 18) * 4});
  CHECK(work(join).flops == Flops{});
  CHECK(work(part).flops == Flops{3. * 2 * 6});
  CHECK(info(KernelKind::JoinLatent).fault(join).empty());
  CHECK(info(KernelKind::PartLatent).fault(make_kernel(KernelKind::PartLatent, {3, 2, 4, 6, 11})) ==
        "values are wider than queries");
  // Elements without a position are not rotated.
  CHECK(work(make_kernel(KernelKind::Rope, {2, 3, 4, 6, 9, 0, 5})) ==
        work(make_kernel(KernelKind::Rope, {2, 3, 4, 6, 9, 0})));
}

TEST_CASE("gathered attention leaves what lies behind the gradients of queries", "[core][ir]") {
  const Kernel own = make_kernel(KernelKind::AttentionBackward, {2, 4, 6, 3, 8, 0});
  const Kernel gathered = make_kernel(KernelKind::AttentionBackward, {2, 4, 6, 3, 8, 2});
  CHECK_FALSE(keeps_elements(own, 0));
  CHECK(keeps_elements(gathered, 0));
  CHECK_FALSE(keeps_elements(gathered, 1));
  const std::string_view fault =
      info(KernelKind::AttentionForward)
          .fault(make_kernel(KernelKind::AttentionForward, {2, 3, 6, 3, 8, 2}));
  CHECK(fault == "two pieces of odd seq");
}

TEST_CASE("norms count what their definitions do to an element", "[core][ir]") {
  const Counted x{0.5}, w{2}, b{1}, mean{0.1}, scale{3}, dy{0.7};
  Counted sum, squares;
  const auto hat = [&] { return (x - mean) * scale; };
  CHECK(flops_of_one(KernelKind::LayerNormForward) == operations_of([&] {
          sum = sum + x;
          const Counted centred = x - mean;
          squares = squares + centred * centred;
          return hat() * w + b;
        }));
  CHECK(flops_of_one(KernelKind::LayerNormBackwardWeight) == operations_of([&] {
          sum = sum + dy * hat();
          squares = squares + dy;
        }));
  CHECK(flops_of_one(KernelKind::RmsNormForward) == operations_of([&] {
          squares = squares + x * x;
          return x * scale * w;
        }));
  CHECK(flops_of_one(KernelKind::RmsNormBackwardWeight) ==
        operations_of([&] { sum = sum + dy * (x * scale); }));
  CHECK(flops_of_one(KernelKind::BatchNormStatistics) == operations_of([&] {
          sum = sum + x;
          const Counted centred = x - mean;
          squares = squares + centred * centred;
        }));
  Kernel forward = make_kernel(KernelKind::BatchNormForward, {1, 1});
  CHECK(work(forward).flops.v == operations_of([&] { return hat() * w + b + x; }));
  forward.in[4] = {};
  CHECK(work(forward).flops.v == operations_of([&] { return hat() * w + b; }));
  CHECK(flops_of_one(KernelKind::BatchNormBackwardSums) == operations_of([&] {
          sum = sum + dy;
          squares = squares + dy * hat();
        }));
}

TEST_CASE("activations and sums count what their definitions do to an element", "[core][ir]") {
  const Counted x{0.5}, half{0.5}, one{1}, a{0.044715}, c{0.7978845608};
  CHECK(flops_of_one(KernelKind::GeluForward) ==
        operations_of([&] { return half * x * (one + function(c * (x + a * x * x * x))); }));
  CHECK(flops_of_one(KernelKind::ReluForward) == 1);
  CHECK(flops_of_one(KernelKind::Fill) == 0);
  Kernel add = make_kernel(KernelKind::Add, {1, 1});
  CHECK(work(add).flops.v == operations_of([&] { return x + half + one; }));
  add.in[2] = {};
  CHECK(work(add).flops.v == operations_of([&] { return x + half; }));
  add.in[1] = {};
  CHECK(work(add).flops.v == 0);  // a copy
}

TEST_CASE("attention that is not causal counts the square of scores", "[core][ir]") {
  // 2 sequences of 7 tokens, 6 heads of 4 elements: 2 products of 4 multiply-adds for each score.
  const auto flops = [](KernelKind kind, std::int64_t parts, std::int64_t whole) {
    return work(make_kernel(kind, {2, 7, 6, 3, 4, parts, 0, whole})).flops.v;
  };
  const double square = 2 * 6 * 7 * 7, triangle = 2 * 6 * 7 * 8 / 2.;
  for (const auto& [kind, of_score] : {std::pair(KernelKind::AttentionForward, 4 * 4.),
                                       std::pair(KernelKind::AttentionBackward, 10 * 4.)}) {
    CHECK(flops(kind, 0, 0) == of_score * triangle);
    CHECK(flops(kind, 0, 1) == of_score * square);
    CHECK(flops(kind, 2, 1) == of_score * 2 * square);  // with the keys of another rank, too
  }
  const auto fault = [](const std::array<std::int64_t, kMaxDims>& dims) {
    return info(KernelKind::AttentionForward)
        .fault(make_kernel(KernelKind::AttentionForward, dims));
  };
  CHECK(fault({2, 8, 6, 3, 4, 2, 0, 1}).empty());
  CHECK(fault({2, 8, 6, 3, 4, 0, 0, 2}) == "whole is neither 0 nor 1");
  // Documents have ends, too, where queries see later tokens.
  CHECK(fault({2, 8, 6, 3, 4, 0, 5, 1}).empty());
  const auto documents = [](std::int64_t whole) {
    const auto& in = info(KernelKind::AttentionForward).in;
    const Kernel kernel = make_kernel(KernelKind::AttentionForward, {2, 8, 6, 3, 4, 0, 5, whole});
    for (const auto& input : in) {
      if (input.name == "documents") return input.extent.elements(kernel);
    }
    return std::int64_t{-1};
  };
  CHECK(documents(0) == 2 * 8);
  CHECK(documents(1) == 2 * 2 * 8);
}

TEST_CASE("attention's scores have a scale and a cap, which change nothing that is counted",
          "[core][ir]") {
  for (const KernelKind kind : {KernelKind::AttentionForward, KernelKind::AttentionBackward}) {
    const Kernel usual = make_kernel(kind, {2, 8, 6, 3, 4, 2, 5, 1});
    const auto with = [&](double scale, double cap) {
      Kernel kernel = usual;
      kernel.scalars = {0, scale, cap};
      return kernel;
    };
    const auto fault = [&](double scale, double cap) { return info(kind).fault(with(scale, cap)); };
    CHECK(fault(0, 0).empty());
    CHECK(fault(0.0625, 50).empty());
    const double infinite = std::numeric_limits<double>::infinity();
    for (const double bad : {-1e-9, infinite, -infinite, std::nan("")}) {
      INFO(bad);
      CHECK(fault(bad, 50) == "scale is negative or not finite");
      CHECK(fault(0.0625, bad) == "cap is negative or not finite");
    }
    CHECK(work(with(0.0625, 50)) == work(usual));
  }
}

TEST_CASE("windows of a convolution have a centre, or lie side by side", "[core][ir]") {
  const auto fault = [](std::int64_t kernel, std::int64_t stride) {
    return info(KernelKind::Conv2dForward)
        .fault(make_kernel(KernelKind::Conv2dForward, {1, 8, 8, 3, 5, kernel, stride}));
  };
  CHECK(fault(3, 2).empty());
  CHECK(fault(4, 4).empty());
  CHECK(fault(4, 2) == "even kernel");
  CHECK(fault(3, 0) == "stride below 1");
  CHECK(fault(0, 0) == "stride below 1");
  CHECK(window_padding(7, 2) == 3);
  CHECK(window_padding(4, 4) == 0);
  CHECK(window_padding(1, 1) == 0);
}

TEST_CASE("regrouping moves every column but those it skips, once each way", "[core][ir]") {
  // Three rows; behind two columns, sections of 5 × 2, 5 × 1 and 5 × 4 columns.
  std::set<std::int64_t> columns;
  for (const std::int64_t width : {2, 1, 4}) {
    for (std::int64_t c = 0; c < 5 * width; ++c) columns.insert(std::ssize(columns));
  }
  const std::int64_t moved = 3 * std::ssize(columns);
  for (const std::int64_t inverse : {0, 1}) {
    const Kernel kernel = make_kernel(KernelKind::Regroup, {3, 5, 2, 1, 4, inverse, 2});
    CHECK(bytes(kernel) == 2 * 4 * moved);
    CHECK(output_is_read(kernel, 0) == (inverse == 1));  // the columns that it skips stay
    CHECK(keeps_elements(kernel, 0) == (inverse == 1));
  }
  CHECK_FALSE(updates_in_place(make_kernel(KernelKind::Regroup, {3, 5, 2, 1, 4, 1, 0})));
}

TEST_CASE("an update of weights counts its definition, and reads what it writes", "[core][ir]") {
  const Counted g{0.5}, coef{1}, decay{0.1}, momentum{0.9}, lr{0.01};
  Counted w{1}, v{0};
  CHECK(flops_of_one(KernelKind::Sgd) == operations_of([&] {
          v = momentum * v + (g * coef + decay * w);
          w = w - lr * v;
        }));
  const Counted kept{0.9}, taken{0.1};  // of momentum and gradient; their sign is no arithmetic
  CHECK(flops_of_one(KernelKind::Lion) == operations_of([&] {
          const Counted clipped = g * coef;
          const Counted sign = kept * v + taken * clipped;
          v = kept * v + taken * clipped;
          w = w - lr * (sign + decay * w);
        }));
  const Counted way{0.5};
  CHECK(flops_of_one(KernelKind::ReplicaTerm) == operations_of([&] { return lr * (w - v); }));
  CHECK(flops_of_one(KernelKind::OuterSgd) == operations_of([&] {
          v = momentum * v + way;
          w = w - lr * (way + momentum * v);
        }));
  CHECK(flops_of_one(KernelKind::NormSquared) == operations_of([&] { v = v + g * g; }));
  // The sums over rows and columns are of the same squares.
  Counted row{0}, col{0}, scale{0};
  Kernel one = make_kernel(KernelKind::FactorSums, {1, 0, 1, 1, 1, 0, 1});
  CHECK(work(one).flops.v == operations_of([&] {
                               const Counted s = (g * coef) * (g * coef);
                               row = row + s;
                               col = col + s;
                               scale = scale + w * w;
                             }) - 1);  // g × coef is there already
  // Weights and momentum both ways, the gradient and its factor once.
  CHECK(bytes(make_kernel(KernelKind::Sgd, {10})) == (2 * 10 + 2 * 10 + 10 + 1) * 4);
}

TEST_CASE("a loss in parts does the whole one's arithmetic, but for exponentials done twice",
          "[core][ir]") {
  const Counted x{0.5}, largest{1}, scale{2};
  Counted sum;
  const double stats = operations_of([&] {
    Counted::done(std::max(x.v, largest.v));
    sum = sum + function(x - largest);
  });
  const double gradient = operations_of([&] { return function(x - largest) * scale; });
  CHECK(flops_of_one(KernelKind::CrossEntropyStats) == stats);
  CHECK(flops_of_one(KernelKind::CrossEntropyParallel) == gradient);
  // Three figures a row from each of four ranks, beside the rank's own logits.
  const std::int64_t whole = bytes(make_kernel(KernelKind::CrossEntropy, {3, 5}));
  const Kernel part = make_kernel(KernelKind::CrossEntropyParallel, {3, 5, 4});
  CHECK(bytes(part) == whole + (4 * 3 * 3 + 1) * 4);
}

TEST_CASE("windows are counted where they stand, the stride apart", "[core][ir]") {
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t kernel : {1, 3}) {
      double windows = 0;
      for (std::int64_t image = 0; image < 2; ++image) {
        for (std::int64_t y = 0; y < 5; y += stride) {
          for (std::int64_t x = 0; x < 4; x += stride) ++windows;
        }
      }
      const double inputs = double(kernel * kernel);
      const std::array<std::int64_t, kMaxDims> conv = {2, 5, 4, 3, 6, kernel, stride};
      const std::array<std::int64_t, kMaxDims> pool = {2, 5, 4, 3, kernel, stride};
      CHECK(flops(KernelKind::Conv2dForward, conv) == 2 * windows * 6 * inputs * 3);
      CHECK(flops(KernelKind::MaxPoolForward, pool) == windows * 3 * inputs);
      CHECK(flops(KernelKind::MaxPoolBackward, pool) == windows * 3 * (inputs + 1));
      CHECK(double(output_elements(make_kernel(KernelKind::Conv2dForward, conv), 0)) ==
            windows * 6);
    }
  }
  const auto fault = [](std::int64_t kernel, std::int64_t stride) {
    const Kernel pool = make_kernel(KernelKind::MaxPoolForward, {2, 5, 4, 3, kernel, stride});
    return info(pool.kind).fault(pool);
  };
  CHECK(fault(3, 1).empty());
  CHECK(fault(3, 0) == "stride below 1");
  CHECK(fault(2, 1) == "even kernel");
}

TEST_CASE("experts together do the products of one network on as many rows", "[core][ir]") {
  // Four experts on two chunks of three rows: 24 rows, whatever way they are divided.
  const double whole = flops(KernelKind::Gemm, {24, 5, 7, 0, 1});
  CHECK(flops(KernelKind::GroupedGemm, {4, 2, 3, 5, 7, 1}) == whole);
  CHECK(flops(KernelKind::GroupedGemm, {2, 4, 3, 5, 7, 0}) == whole);
  // Its gradient, and every row of dy added to the bias's.
  CHECK(flops(KernelKind::GroupedGemmWeight, {4, 2, 3, 5, 7}) ==
        whole + flops(KernelKind::ColumnSum, {24, 5}));
  // A multiply-add per token, choice and element.
  CHECK(flops(KernelKind::CombineForward, {9, 5, 2, 12}) == 2 * 9 * 2 * 5);
}

TEST_CASE("an embedding that starts from zero writes its table besides", "[core][ir]") {
  Kernel backward = make_kernel(KernelKind::EmbeddingBackward, {12, 5, 4, 100});
  backward.out[1] = {};
  const std::int64_t from_zero = bytes(backward);
  backward.accumulate = true;
  CHECK(from_zero - bytes(backward) == 100 * 5 * 4);
  const Kernel forward = make_kernel(KernelKind::EmbeddingForward, {12, 5, 4, 100});
  CHECK(bytes(forward) == bytes(make_kernel(KernelKind::EmbeddingForward, {12, 5, 4, 100000})));
}
