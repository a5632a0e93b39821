// Conformance cases: collects the cases of conformance_cases(). Each kind of kernel has a function
// that adds its cases for a shape.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "tests/integration/kernel_conformance.hpp"

namespace lockstep::test {

/// Numbers that use up no random ones, so that cases behind them stay what they are.
inline Numbers wave(std::int64_t n, double size) {
  Numbers values;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(size * std::sin(1.7 * static_cast<double>(i) + 0.3));
  }
  return values;
}
inline Numbers counted(std::int64_t n, std::int64_t below) {
  Numbers values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % below));
  return values;
}

class ConformanceCases {
 public:
  std::vector<ConformanceCase> take() { return std::move(cases_); }

  // conformance_dense.cpp
  void gemm(std::int64_t m, std::int64_t n, std::int64_t k);
  void norm(bool centered, std::int64_t rows, std::int64_t cols);
  void head_norm(std::int64_t rows, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim);
  void scale(std::int64_t n);
  void dropout(std::int64_t rows, std::int64_t cols);
  /// A sum of one tensor and a bias, or of neither.
  void bias(std::int64_t rows, std::int64_t cols);
  void rows_and_columns(std::int64_t rows, std::int64_t cols);
  /// The vocabulary is divided into parts, of which the last may hold some padding, or only
  /// padding.
  /// With `ignored`, every third row has no target.
  void cross_entropy_parts(std::int64_t rows, std::int64_t vocab, std::int64_t parts,
                           bool ignored = false);
  void line(std::int64_t n);
  /// AdamW with quantized states of blocks of `block` elements.
  void adamw_8bit(std::int64_t n, std::int64_t block);
  void clip(std::int64_t blocks, double max_norm);
  void embedding(std::int64_t tokens, std::int64_t cols, std::int64_t seq, std::int64_t vocab);

  // conformance_attention.cpp
  /// If `document` is not 0, sequences hold documents of so many tokens on average. If `whole` is
  /// 1, queries see later keys, too.
  void attention(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads,
                 std::int64_t dim, std::int64_t document = 0, std::int64_t whole = 0);
  /// Attention of one rank among `parts`, whose keys and values are gathered. It has `seq` own
  /// tokens, half of them from the front of the sequence and half from the back.
  void passed_attention(ConformanceCase forward, ConformanceCase backward, std::int64_t rank,
                        std::int64_t other);
  void gathered_attention(std::int64_t batch, std::int64_t seq, std::int64_t heads,
                          std::int64_t kv_heads, std::int64_t dim, std::int64_t parts,
                          std::int64_t document = 0, std::int64_t whole = 0);
  void rope(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t dim,
            std::int64_t row_heads);
  void regroup(std::int64_t rows, std::int64_t parts, std::int64_t a, std::int64_t b,
               std::int64_t skip = 0);
  void columns(std::int64_t rows, std::int64_t a, std::int64_t b);
  /// The parts of latent attention, and the rotation of the `rope` last elements of its heads.
  void latent(std::int64_t rows, std::int64_t heads, std::int64_t nope, std::int64_t rope,
              std::int64_t value);

  // conformance_compression.cpp
  /// Codes of `parts` parts of n values, and values of such codes.
  void block_codes(std::int64_t n, std::int64_t parts, std::int64_t block);
  void basis(std::int64_t rows, std::int64_t cols);

  // conformance_float8.cpp
  /// A matrix in 8 bits, as it lies and transposed, in both formats.
  void scaled_groups(std::int64_t groups, std::int64_t chunks, std::int64_t rows, std::int64_t n,
                     std::int64_t k, std::int64_t block);
  /// Counted rows of experts in blocks of `along`, some of them empty, as rows and as lines that
  /// are padded, and their products.
  void ragged_float8(std::int64_t groups, std::int64_t chunks, std::int64_t n, std::int64_t k,
                     std::int64_t along, std::int64_t blocks);
  void delayed_scales(std::int64_t linears, std::int64_t length);
  void quantize(std::int64_t rows, std::int64_t cols, std::int64_t across, std::int64_t along);
  /// A product of such matrices, whose blocks have `a_across` and `b_across` rows.
  void scaled_gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a_across,
                   std::int64_t b_across, std::int64_t along);

  // conformance_experts.cpp
  void grouped_gemm(std::int64_t groups, std::int64_t chunks, std::int64_t m, std::int64_t n,
                    std::int64_t k);
  /// Of counts from 0 on, in places of which some stay empty.
  void ragged(std::int64_t groups, std::int64_t chunks, std::int64_t n, std::int64_t k);
  void ragged(std::int64_t groups, std::int64_t chunks, std::int64_t n, std::int64_t k,
              std::int64_t blocks);
  /// `capacity` may be too small for all tokens; 0: every choice has a place.
  void gate(std::int64_t rows, std::int64_t cols);
  void route(std::int64_t tokens, std::int64_t experts, std::int64_t choices, std::int64_t capacity,
             std::int64_t cols);

  // conformance_vision.cpp
  void convolution(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t in,
                   std::int64_t out, std::int64_t kernel, std::int64_t stride);
  void batch_norm(std::int64_t rows, std::int64_t cols);
  void pooling(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t channels,
               std::int64_t stride);

  // conformance_random.cpp
  /// Calls every function above but columns(), latent(), ragged() and those of 8 bits once, with
  /// small random sizes, also odd ones.
  void random_shapes();

  /// Adds what `more` adds, where attention drops a share of its probabilities.
  template <class F>
  void dropping(double share, const F& more) {
    share_ = share;
    more();
    share_ = 0;
  }

  /// Adds what `more` adds, where attention's scores are multiplied by `scale` and have a cap; 0:
  /// the usual scale, no cap.
  template <class F>
  void scoring(double scale, double cap, const F& more) {
    scale_ = scale;
    cap_ = cap;
    more();
    scale_ = cap_ = 0;
  }

  /// Adds what `more` adds. Cases behind it get the numbers that they would get without it.
  template <class F>
  void beside(const F& more) {
    const std::mt19937 before = engine_;
    more();
    engine_ = before;
  }

 private:
  std::int64_t between(std::int64_t least, std::int64_t most);
  Numbers random(std::int64_t n, double scale = 1.0, double offset = 0.0);
  Numbers ids(std::int64_t n, std::int64_t below);
  void add(ConformanceCase c) { cases_.push_back(std::move(c)); }
  /// The outputs of a case in float64, which a backward kernel gets as inputs.
  static std::vector<Numbers> outputs(const ConformanceCase& c);

  std::mt19937 engine_{17};
  double share_ = 0;            // of probabilities that attention drops
  double scale_ = 0, cap_ = 0;  // of its scores
  std::vector<ConformanceCase> cases_;
};

}  // namespace lockstep::test
