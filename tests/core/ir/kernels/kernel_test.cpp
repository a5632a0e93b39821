#include "core/ir/kernels/kernel.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "core/ir/program.hpp"
#include "tests/catch.hpp"
#include "tests/core/ir/kernels/make_kernel.hpp"

using namespace lockstep;

namespace {

Kernel make(KernelKind kind, std::array<std::int64_t, kMaxDims> dims, DType dtype = DType::F32) {
  return test::make_kernel(kind, dims, dtype);
}
/// With what dropout draws from, too.
Kernel make_whole(KernelKind kind, std::array<std::int64_t, kMaxDims> dims) {
  Kernel kernel = make(kind, dims);
  for (Operand& operand : kernel.in) {
    if (!operand.present()) operand = {20, DType::I32, 0};
  }
  return kernel;
}

}  // namespace

TEST_CASE("kernel names are unique and their dims and operands fit", "[core][ir]") {
  std::set<std::string_view> names;
  for (int i = 0; i < kNumKernelKinds; ++i) {
    const KernelRow& row = info(static_cast<KernelKind>(i));
    CHECK(names.insert(row.name).second);
    CHECK(row.dims.size() <= to_size(kMaxDims));
    CHECK(row.scalars.size() <= 4);
    CHECK(row.in.size() <= to_size(kMaxOperands));
    CHECK(row.out.size() <= to_size(kMaxOperands));
  }
}

TEST_CASE("every operand of every row has a name of its own and elements", "[core][ir]") {
  for (int k = 0; k < kNumKernelKinds; ++k) {
    const KernelRow& row = info(static_cast<KernelKind>(k));
    INFO(row.name);
    CHECK(row.kind == static_cast<KernelKind>(k));
    const Kernel kernel = make_whole(row.kind, {3, 3, 3, 3, 3, 3, 3, 3});
    const auto check = [&](const std::vector<OperandRow>& operands, auto elements) {
      std::set<std::string_view> names;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        INFO("operand " << operands[i].name);
        CHECK(names.insert(operands[i].name).second);
        CHECK(operands[i].name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") ==
              std::string_view::npos);
        CHECK(elements(kernel, i) > 0);
        // A condition tells when an operand is absent, so it may be.
        CHECK((!operands[i].given_if || operands[i].optional));
        CHECK((!operands[i].updates_if || operands[i].effect == Effect::Update));
      }
    };
    check(row.in, input_elements);
    check(row.out, output_elements);
    for (const OperandRow& in : row.in) CHECK(in.effect == Effect::Write);  // says nothing of it
    const std::set<std::string_view> dims(row.dims.begin(), row.dims.end());
    CHECK(dims.size() == row.dims.size());
  }
}

TEST_CASE("a kernel without an optional operand moves fewer bytes", "[core][ir]") {
  for (int k = 0; k < kNumKernelKinds; ++k) {
    const KernelRow& row = info(static_cast<KernelKind>(k));
    const Kernel whole = make_whole(row.kind, {4, 4, 4, 4, 4, 4, 4});
    const auto check = [&](const std::vector<OperandRow>& operands,
                           std::vector<Operand> Kernel::*side) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].optional) continue;
        INFO(row.name << " without " << operands[i].name);
        Kernel without = whole;
        (without.*side)[i] = {};
        CHECK(work(without).bytes < work(whole).bytes);
        CHECK(work(without).flops <= work(whole).flops);
      }
    };
    check(row.in, &Kernel::in);
    check(row.out, &Kernel::out);
  }
}

TEST_CASE("a kernel that goes as well as another names one with a curve of its own", "[core][ir]") {
  std::set<std::string_view> names, borrowed, lent;
  for (int k = 0; k < kNumKernelKinds; ++k) {
    const KernelRow& row = info(static_cast<KernelKind>(k));
    names.insert(row.name);
    if (row.efficiency_as.empty()) continue;
    borrowed.insert(row.name);
    lent.insert(row.efficiency_as);
  }
  CHECK(borrowed.contains("adam"));
  for (const std::string_view name : lent) {
    CHECK(names.contains(name));
    CHECK_FALSE(borrowed.contains(name));
  }
}

TEST_CASE("operands have the types that their rows allow", "[core][ir]") {
  using enum DType;
  struct Rule {
    OperandType type;
    DType own;
    std::vector<DType> allowed;
    DType usual;
  };
  const std::vector<Rule> rules = {
      {OperandType::Own, BF16, {BF16}, BF16},
      {OperandType::Own, F64, {F64}, F64},
      {OperandType::Sums, BF16, {F32}, F32},
      {OperandType::Sums, F64, {F64}, F64},
      {OperandType::Mixed, BF16, {F32, BF16, F16}, BF16},
      {OperandType::Mixed, F32, {F32, BF16, F16}, F32},
      {OperandType::Mixed, F16, {F32, BF16, F16}, F16},
      {OperandType::Mixed, F64, {F64}, F64},
      {OperandType::Real, BF16, {F32, F64}, F32},
      {OperandType::Sums, F16, {F32}, F32},
      {OperandType::Index, F64, {I32}, I32},
  };
  for (const Rule& rule : rules) {
    for (const DType dtype : {F32, F64, BF16, F16, I32, U8}) {
      INFO(static_cast<int>(rule.type) << " " << to_string(rule.own) << " " << to_string(dtype));
      const bool allowed =
          std::find(rule.allowed.begin(), rule.allowed.end(), dtype) != rule.allowed.end();
      CHECK(fits(rule.type, rule.own, dtype) == allowed);
    }
    CHECK(usual_dtype(rule.type, rule.own) == rule.usual);
  }
  Kernel norm = make(KernelKind::LayerNormForward, {3, 5}, BF16);
  CHECK_FALSE(types_fit(norm));  // statistics in bfloat16
  norm.out[1].dtype = F32;
  CHECK(types_fit(norm));
  norm.out.push_back({});
  CHECK_FALSE(types_fit(norm));
}

TEST_CASE("a gemm is 2mnk flops and moves each operand once", "[core][ir]") {
  Kernel gemm = make(KernelKind::Gemm, {3, 5, 7, 0, 0});
  // a 3*7, b 7*5, bias 5, resid 3*5, c 3*5 floats.
  CHECK(work(gemm) == Work{Flops{2 * 3 * 5 * 7}, Bytes{(21 + 35 + 5 + 15 + 15) * 4}});
  gemm.in[2] = Operand{};
  gemm.in[3] = Operand{};
  CHECK(work(gemm).bytes == Bytes{(21 + 35 + 15) * 4});
  gemm.accumulate = true;  // c is read as well
  CHECK(output_is_read(gemm, 0));
  CHECK(work(gemm).bytes == Bytes{(21 + 35 + 15 + 15) * 4});
  gemm.in[0].dtype = DType::BF16;
  CHECK(work(gemm).bytes == Bytes{21 * 2 + (35 + 15 + 15) * 4});
}

TEST_CASE("causal attention counts the lower triangle with the diagonal", "[core][ir]") {
  // batch 2, seq 4, heads 6, kv_heads 3, head_dim 8: 4*5/2 = 10 scores per head and sequence.
  const Kernel forward = make(KernelKind::AttentionForward, {2, 4, 6, 3, 8});
  const std::int64_t qkv = 2 * 4 * (6 + 3 + 3) * 8;
  const std::int64_t o = 2 * 4 * 6 * 8;
  const std::int64_t lse = 2 * 6 * 4;
  CHECK(work(forward) == Work{Flops{4. * 8 * 10 * 2 * 6}, Bytes{(qkv + o + lse) * 4}});
  const Kernel backward = make(KernelKind::AttentionBackward, {2, 4, 6, 3, 8});
  CHECK(work(backward) == Work{Flops{10. * 8 * 10 * 2 * 6}, Bytes{(qkv + o + lse + o + qkv) * 4}});
}

TEST_CASE("attention to gathered keys counts what a rank of a balanced sequence sees",
          "[core][ir]") {
  // As above over 2 ranks of 4 tokens: 8*9/2 scores, half of them on each; keys and values of all.
  const Kernel forward = make(KernelKind::AttentionForward, {2, 4, 6, 3, 8, 2});
  const std::int64_t q = 2 * 4 * 6 * 8, kv = 2 * 2 * 4 * 6 * 8, lse = 2 * 6 * 4, starts = 6;
  CHECK(work(forward) == Work{Flops{4. * 8 * 18 * 2 * 6}, Bytes{(q + kv + starts + q + lse) * 4}});
  const Kernel backward = make(KernelKind::AttentionBackward, {2, 4, 6, 3, 8, 2});
  CHECK(work(backward) ==
        Work{Flops{10. * 8 * 18 * 2 * 6}, Bytes{(q + q + lse + q + kv + starts + q + kv) * 4}});
}

TEST_CASE("attention that drops probabilities reads a number of each head and a key of each query",
          "[core][ir]") {
  for (const auto& [kind, of_score] : {std::pair(KernelKind::AttentionForward, 2.),
                                       std::pair(KernelKind::AttentionBackward, 4.)}) {
    const Kernel whole = make(kind, {2, 4, 6, 3, 8});
    Kernel drops = make_whole(kind, {2, 4, 6, 3, 8});
    CHECK(info(kind).fault(drops) != "");  // what it draws from is not asked for
    drops.scalars[0] = 0.1;
    CHECK(info(kind).fault(drops) == "");
    CHECK(input_elements(drops, drops.in.size() - 1) == 6 + 2 * 4);
    CHECK(work(drops).bytes.v - work(whole).bytes.v == 4 * (6 + 2 * 4));
    CHECK(work(drops).flops.v - work(whole).flops.v == of_score * 10 * 2 * 6);
    drops.in.back() = {};
    CHECK(info(kind).fault(drops) != "");
    drops.scalars[0] = 1;
    CHECK(info(kind).fault(drops) != "");
  }
}

TEST_CASE("operand sizes follow from the dimensions", "[core][ir]") {
  const auto in = [](const Kernel& k) {
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < k.in.size(); ++i) sizes.push_back(input_elements(k, i));
    return sizes;
  };
  const auto out = [](const Kernel& k) {
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < k.out.size(); ++i) sizes.push_back(output_elements(k, i));
    return sizes;
  };
  using Sizes = std::vector<std::int64_t>;
  struct Row {
    KernelKind kind;
    std::array<std::int64_t, kMaxDims> dims;
    Sizes in, out;
  };
  const std::vector<Row> rows = {
      {KernelKind::Gemm, {3, 5, 7, 0, 0}, {21, 35, 5, 15}, {15}},
      // Blocks of 2 x 3 of a matrix of 5 x 7, and of its transpose.
      {KernelKind::Quantize, {5, 7, 0, 2, 3, 6}, {35, 6}, {35, 3 * 3, 1}},
      {KernelKind::Quantize, {5, 7, 1, 2, 3, 6}, {35, 6}, {35, 4 * 2, 1}},
      {KernelKind::ScaledGemm,
       {12, 4, 8, 1, 2, 4, 0, 3},
       {96, 96, 12, 48, 12 * 2, 3 * 2 * 2},
       {48}},
      {KernelKind::ScaledGemm, {4, 8, 24, 1, 1, 4, 1, 3}, {96, 192, 24, 32, 4 * 6, 8 * 6}, {96}},
      {KernelKind::Largest, {}, {1, 1, 1}, {3}},
      {KernelKind::ScaledGemm, {3, 5, 7, 1, 2, 4}, {21, 35, 5, 15, 3 * 2, 3 * 2}, {15}},
      // Six parts of five values, each with two scales and two words of codes.
      {KernelKind::ToCodes, {5, 6, 2, 4, 8, 2}, {30}, {96}},
      {KernelKind::FromCodes, {5, 6, 4, 8, 2, 1}, {96}, {30}},
      {KernelKind::FromCodes, {5, 6, 4, 8, 2, 3}, {96}, {10}},
      {KernelKind::Orthonormalize, {7, 3}, {}, {21}},
      {KernelKind::ColumnSum, {3, 5}, {15}, {5}},
      {KernelKind::LayerNormForward, {3, 5}, {15, 5, 5}, {15, 6}},
      {KernelKind::LayerNormBackwardInput, {3, 5}, {15, 15, 5, 6, 15}, {15}},
      {KernelKind::LayerNormBackwardWeight, {3, 5}, {15, 15, 6}, {5, 5}},
      {KernelKind::RmsNormForward, {3, 5}, {15, 5}, {15, 3}},
      {KernelKind::RmsNormBackwardInput, {3, 5}, {15, 15, 5, 3, 15}, {15}},
      {KernelKind::RmsNormBackwardWeight, {3, 5}, {15, 15, 3}, {5}},
      {KernelKind::HeadNormForward, {3, 4, 2, 5}, {120, 5, 5}, {120, 18}},
      {KernelKind::HeadNormBackwardInput, {3, 4, 2, 5}, {120, 120, 5, 5, 18}, {120}},
      {KernelKind::HeadNormBackwardWeight, {3, 4, 2, 5}, {120, 120, 18}, {5, 5}},
      {KernelKind::GeluForward, {7}, {7}, {7}},
      {KernelKind::GeluBackward, {7}, {7, 7}, {7}},
      {KernelKind::SquaredReluForward, {7}, {7}, {7}},
      {KernelKind::SquaredReluBackward, {7}, {7, 7}, {7}},
      {KernelKind::SoftcapForward, {7}, {7}, {7}},
      {KernelKind::SoftcapBackward, {7}, {7, 7}, {7}},
      {KernelKind::GegluForward, {3, 5}, {30}, {15}},
      {KernelKind::GegluBackward, {3, 5}, {15, 30}, {30}},
      {KernelKind::SwigluForward, {3, 5}, {30}, {15}},
      {KernelKind::SwigluBackward, {3, 5}, {15, 30}, {30}},
      {KernelKind::Rope, {2, 3, 4, 6, 8, 0}, {2 * 3 * 8 * 6, 2}, {2 * 3 * 8 * 6}},
      {KernelKind::Rope, {2, 3, 4, 6, 8, 0, 5}, {2 * 3 * 8 * 11, 2}, {2 * 3 * 8 * 11}},
      {KernelKind::Rope, {2, 3, 4, 6, 8, 0, 5, 2}, {2 * 3 * 8 * 13, 2}, {2 * 3 * 8 * 13}},
      {KernelKind::EmbeddingForward, {12, 5, 4, 100}, {12, 500, 20}, {60}},
      {KernelKind::EmbeddingBackward, {12, 5, 4, 100}, {12, 60}, {500, 20}},
      {KernelKind::CrossEntropy, {3, 5}, {15, 3, 1}, {15, 1}},
      {KernelKind::CrossEntropyStats, {3, 5}, {15, 3, 1}, {9}},
      {KernelKind::CrossEntropyParallel, {3, 5, 4}, {15, 3, 36, 1, 1}, {15, 1}},
      {KernelKind::Add, {3, 5}, {15, 15, 5}, {15}},
      {KernelKind::Dropout, {3, 5}, {15, 3, 15, 5, 1}, {15}},
      {KernelKind::Scale, {7}, {7}, {7}},
      {KernelKind::Regroup, {3, 5, 2, 1, 4, 0, 2}, {111}, {105}},
      {KernelKind::Regroup, {3, 5, 2, 1, 4, 1, 2}, {105}, {111}},
      {KernelKind::JoinColumns, {3, 5, 2}, {15, 6}, {21}},
      {KernelKind::PartColumns, {3, 5, 2}, {21}, {15, 6}},
      // 3 rows, 2 heads of 4 + 6, values of 5.
      {KernelKind::JoinLatent, {3, 2, 4, 6, 5}, {60, 54, 18}, {180}},
      {KernelKind::PartLatent, {3, 2, 4, 6, 5}, {180}, {60, 54, 18}},
      {KernelKind::Fill, {7}, {}, {7}},
      {KernelKind::Sum, {7}, {7}, {1}},
      {KernelKind::NormSquared, {7, 3}, {7}, {3}},
      {KernelKind::ClipCoefficient, {3}, {3, 1}, {1, 1}},
      {KernelKind::AdamW, {7}, {7, 1}, {7, 7, 7}},
      {KernelKind::RouterBias, {7}, {7, 1}, {7, 7}},
      {KernelKind::DelayedScale, {6, 5}, {6, 1}, {6, 30}},
      {KernelKind::ReplicaTerm, {7}, {7, 7}, {7}},
      {KernelKind::OuterSgd, {7}, {7}, {7, 7}},
      // 2 matrices of 3 x 5, of which the rank has 7 elements.
      {KernelKind::FactorSums, {7, 1, 2, 3, 30, 0, 4}, {7, 1, 7, 1}, {6, 10, 2}},
      {KernelKind::FactorMoments, {7}, {7, 1}, {7}},
      {KernelKind::FactoredSquares, {7, 1, 2, 3, 30, 0, 4}, {7, 1, 6, 10, 1}, {2}},
      {KernelKind::Adafactor, {7, 1, 2, 3, 30, 0, 4}, {7, 1, 6, 10, 2, 2, 1}, {7, 7}},
      {KernelKind::Sgd, {7}, {7, 1}, {7, 7}},
      // 2 images of 5 x 4 x 3, 6 channels out, 3 x 3 window, stride 2: 3 x 2 positions.
      {KernelKind::Conv2dForward, {2, 5, 4, 3, 6, 3, 2}, {120, 162}, {72}},
      {KernelKind::Conv2dBackwardInput, {2, 5, 4, 3, 6, 3, 2}, {72, 162, 120}, {120}},
      {KernelKind::Conv2dBackwardWeight, {2, 5, 4, 3, 6, 3, 2}, {72, 120}, {162}},
      {KernelKind::BatchNormStatistics, {3, 5}, {15}, {10}},
      {KernelKind::BatchNormCombine, {4, 5}, {40}, {10}},
      {KernelKind::BatchNormRunning, {5}, {10}, {10}},
      {KernelKind::BatchNormForward, {3, 5}, {15, 5, 5, 10, 15}, {15}},
      {KernelKind::BatchNormBackwardSums, {3, 5}, {15, 15, 10}, {10}},
      {KernelKind::BatchNormBackwardInput, {3, 5}, {15, 15, 5, 10, 10}, {15}},
      {KernelKind::BatchNormBackwardWeight, {5}, {10}, {5, 5}},
      {KernelKind::ReluForward, {7}, {7}, {7}},
      {KernelKind::ReluBackward, {7}, {7, 7}, {7}},
      {KernelKind::MaxPoolForward, {2, 5, 4, 3, 3, 2}, {120}, {36}},
      {KernelKind::MaxPoolBackward, {2, 5, 4, 3, 3, 2}, {36, 120}, {120}},
      {KernelKind::AveragePoolForward, {2, 5, 3}, {30}, {6}},
      {KernelKind::AveragePoolBackward, {2, 5, 3}, {6}, {30}},
      // 4 experts, places for 3 tokens each from 2 sources; 5 features out of 7.
      {KernelKind::GroupedGemm, {4, 2, 3, 5, 7, 1}, {168, 140, 20}, {120}},
      {KernelKind::GroupedGemmWeight, {4, 2, 3, 5, 7}, {120, 168}, {140, 20}},
      // The same experts and sources, 30 places of which 18 are expected to be taken.
      {KernelKind::RaggedGemm, {4, 2, 30, 18, 5, 7, 1, 1}, {210, 140, 20, 8}, {150}},
      {KernelKind::RaggedGemmWeight, {4, 2, 30, 18, 5, 7, 2}, {150, 210, 8}, {140, 20}},
      // Eight parts in 30 places: lines have room for (30 + 8 × 3) / 4 blocks of four.
      {KernelKind::RaggedQuantize, {8, 30, 18, 7, 0, 4, 1, 52}, {210, 8, 1}, {210, 30 * 2, 1}},
      {KernelKind::RaggedQuantize, {8, 30, 18, 7, 1, 4, 1, 52}, {210, 8, 1}, {7 * 52, 7 * 13, 1}},
      {KernelKind::RaggedScaledGemm,
       {4, 2, 30, 18, 8, 12, 4, 4},
       {360, 384, 30 * 3, 4 * 2 * 3, 8},
       {240}},
      {KernelKind::RaggedScaledGemmWeight,
       {4, 2, 52, 18, 8, 12, 4},
       {8 * 52, 12 * 52, 8 * 13, 12 * 13, 8},
       {4 * 96}},
      {KernelKind::RaggedActivationForward, {30, 18, 5, 1, 8, 1}, {300, 8}, {150}},
      {KernelKind::RaggedActivationBackward, {30, 18, 5, 1, 8, 2}, {150, 300, 8}, {300}},
      {KernelKind::RouteForward, {9, 4, 2, 3}, {36, 4}, {36, 18, 18, 12, 4}},
      {KernelKind::RouteForward, {9, 4, 2, 0}, {36, 4}, {36, 18, 18, 18, 4}},
      {KernelKind::RouteBackward, {9, 4, 2, 3}, {18, 36, 18, 1, 4}, {36}},
      {KernelKind::RouteLoad, {9, 4, 2, 3}, {18, 4}, {4}},
      {KernelKind::RouteBalance, {9, 4}, {36, 36, 4, 1}, {36}},
      {KernelKind::CombineForward, {9, 5, 2, 12}, {60, 18, 18, 45}, {45}},
      {KernelKind::CombineBackward, {9, 5, 2, 12}, {45, 60, 18, 18}, {60, 18}},
      {KernelKind::GateForward, {9, 5}, {45, 9, 45}, {45}},
      {KernelKind::GateBackward, {9, 5}, {45, 45, 9}, {45, 9}},
      {KernelKind::Delay, {}, {}, {}},
  };
  for (const Row& row : rows) {
    const Kernel kernel = make(row.kind, row.dims);
    INFO(info(row.kind).name);
    CHECK(in(kernel) == row.in);
    CHECK(out(kernel) == row.out);
  }
}

TEST_CASE("an absent operand has no elements", "[core][ir]") {
  Kernel gemm = make(KernelKind::Gemm, {3, 5, 7, 0, 0});
  gemm.in.resize(2);
  CHECK(input_elements(gemm, 2) == 0);
  CHECK(output_elements(gemm, 1) == 0);
}

TEST_CASE("a convolution is two flops per multiply-add in all three directions", "[core][ir]") {
  for (const KernelKind kind : {KernelKind::Conv2dForward, KernelKind::Conv2dBackwardInput,
                                KernelKind::Conv2dBackwardWeight}) {
    // 2 x 3 x 2 positions, 3 x 3 x 3 inputs each, 6 channels out.
    CHECK(work(make(kind, {2, 5, 4, 3, 6, 3, 2})).flops == Flops{2. * 12 * 27 * 6});
  }
  CHECK(output_is_read(make(KernelKind::BatchNormRunning, {5}), 0));
  CHECK(output_is_read(make(KernelKind::Sgd, {5}), 1));
}

TEST_CASE("products by expert are two flops per multiply-add, empty places counted", "[core][ir]") {
  CHECK(work(make(KernelKind::GroupedGemm, {4, 2, 3, 5, 7, 0})).flops == Flops{2. * 24 * 5 * 7});
  Kernel weight = make(KernelKind::GroupedGemmWeight, {4, 2, 3, 5, 7});
  CHECK(work(weight).flops == Flops{2. * 24 * 5 * 7 + 24 * 5});
  weight.out[1] = Operand{};
  CHECK(work(weight).flops == Flops{2. * 24 * 5 * 7});
  // Nine tokens with two choices each find 12 places at most, and move no more rows.
  CHECK(work(make(KernelKind::CombineForward, {9, 5, 2, 12})).bytes ==
        Bytes{(60 + 18 + 18 + 45 + 45) * 4});
  CHECK(work(make(KernelKind::CombineForward, {9, 5, 2, 50})).bytes ==
        Bytes{(90 + 18 + 18 + 45 + 45) * 4});
}

TEST_CASE("updates in place read what they write", "[core][ir]") {
  const Kernel adamw = make(KernelKind::AdamW, {10});
  for (std::size_t i = 0; i < 3; ++i) CHECK(output_is_read(adamw, i));
  // grad and coef once, w m v twice.
  CHECK(work(adamw).bytes == Bytes{(10 + 1 + 2 * 30) * 4});
  Kernel loss = make(KernelKind::CrossEntropy, {3, 5});
  CHECK_FALSE(output_is_read(loss, 1));
  loss.accumulate = true;
  CHECK_FALSE(output_is_read(loss, 0));
  CHECK(output_is_read(loss, 1));
}

TEST_CASE("embeddings move the rows they touch", "[core][ir]") {
  // 12 tokens of width 5 out of a table of 100 rows, positions of 4.
  const Kernel forward = make(KernelKind::EmbeddingForward, {12, 5, 4, 100});
  CHECK(work(forward).bytes == Bytes{(12 + 60 + 20 + 60) * 4});
  Kernel backward = make(KernelKind::EmbeddingBackward, {12, 5, 4, 100});
  CHECK(work(backward).bytes == Bytes{(12 + 60 + 500 + 2 * 60 + 20) * 4});  // zeroes the table
  backward.accumulate = true;
  CHECK(work(backward).bytes == Bytes{(12 + 60 + 2 * 60 + 2 * 20) * 4});
}

TEST_CASE("the work of a function is the sum over its kernels", "[core][ir]") {
  Function function;
  function.kernels = {make(KernelKind::GeluForward, {7}), make(KernelKind::Gemm, {3, 5, 7, 0, 0})};
  CHECK(work(function) == work(function.kernels[0]) + work(function.kernels[1]));
  CHECK(work(Function{}) == Work{});
}

TEST_CASE("sizes saturate instead of overflowing", "[core][ir]") {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kNumKernelKinds; ++i) {
    const Kernel kernel =
        make(static_cast<KernelKind>(i), {huge, huge, huge, huge, huge, huge}, DType::F64);
    CHECK(work(kernel).bytes.v >= 0);
  }
}
