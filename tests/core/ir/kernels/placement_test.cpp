// What kernels make of the placements of their operands.
#include "core/ir/kernels/placement.hpp"

#include <optional>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// A kernel that has the operands of its row, the optional ones only if `all`.
Kernel kernel_of(KernelKind kind, bool all) {
  Kernel kernel;
  kernel.kind = kind;
  const KernelRow& row = info(kind);
  for (const OperandRow& operand : row.in) {
    kernel.in.push_back({static_cast<std::int16_t>(all || !operand.optional ? 0 : -1)});
  }
  for (const OperandRow& operand : row.out) {
    kernel.out.push_back({static_cast<std::int16_t>(all || !operand.optional ? 0 : -1)});
  }
  return kernel;
}

/// What the kernel makes of one placement of all that it is given, in its first output; none: it
/// refuses.
std::optional<Along> made(const Kernel& kernel, Along along) {
  AxisOperands operands;
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (kernel.in[i].present()) operands.in[i] = along;
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    if (kernel.out[i].present()) operands.out[i] = along;
  }
  if (!place(kernel, operands)) return std::nullopt;
  const bool has_first = kernel.out.empty() || kernel.out[0].present();
  return operands.out[has_first ? 0 : 1];
}

}  // namespace

TEST_CASE("what is the same on all ranks stays the same through every kernel", "[core][ir]") {
  for (int i = 0; i < kNumKernelKinds; ++i) {
    const auto kind = static_cast<KernelKind>(i);
    if (kind == KernelKind::Delay || kind == KernelKind::Fill) continue;  // they read nothing
    INFO(info(kind).name);
    CHECK(made(kernel_of(kind, false), Along::Same) == Along::Same);
    CHECK(made(kernel_of(kind, true), Along::Same) == Along::Same);
  }
}

TEST_CASE(
    "what is made of a replica's own is the replica's own, and a term of a mean with 1/n alone",
    "[core][ir]") {
  for (int i = 0; i < kNumKernelKinds; ++i) {
    const auto kind = static_cast<KernelKind>(i);
    if (kind == KernelKind::Delay || kind == KernelKind::Fill) continue;  // they read nothing
    if (kind == KernelKind::ReplicaTerm) continue;
    INFO(info(kind).name);
    CHECK(made(kernel_of(kind, false), Along::Replica) == Along::Replica);
  }
  Kernel term = kernel_of(KernelKind::ReplicaTerm, false);
  for (const double factor : {0.25, 0.5}) {
    term.scalars[0] = factor;
    AxisOperands o;
    o.ranks = 4;
    o.in = {Along::Replica, Along::Same};
    CHECK(place(term, o) == (factor == 0.25));
    if (factor == 0.25) CHECK(o.out[0] == Along::Partial);
    o.in = {Along::Replica, Along::Replica};  // they must start from the same
    CHECK_FALSE(place(term, o));
  }
  AxisOperands mixed;  // rows of the samples of all replicas together
  mixed.in = {Along::Replica, Along::Samples};
  CHECK_FALSE(place(kernel_of(KernelKind::Add, false), mixed));
}

TEST_CASE("terms of a sum pass through what is linear alone", "[core][ir]") {
  for (int i = 0; i < kNumKernelKinds; ++i) {
    const auto kind = static_cast<KernelKind>(i);
    const bool linear = kind == KernelKind::Add || kind == KernelKind::Scale ||
                        kind == KernelKind::Regroup || kind == KernelKind::Sum ||
                        kind == KernelKind::JoinColumns || kind == KernelKind::PartColumns ||
                        kind == KernelKind::ColumnSum || kind == KernelKind::Fill ||
                        kind == KernelKind::Delay || kind == KernelKind::BatchNormRunning ||
                        kind == KernelKind::BatchNormBackwardWeight ||
                        // Each rank's term is rounded: qgZ adds up what the codes stand for.
                        kind == KernelKind::ToCodes || kind == KernelKind::FromCodes;
    INFO(info(kind).name);
    CHECK((linear || !made(kernel_of(kind, false), Along::Partial)));
  }
}

TEST_CASE("what is dropped of parts of rows depends on which they are, of terms on no values",
          "[core][ir]") {
  const Kernel dropout = kernel_of(KernelKind::Dropout, false);
  const auto dropped = [&](Along x, Along keys, Along part, Along bias = Along::Nothing) {
    AxisOperands o;
    o.in = {x, keys, x, bias, part};
    return place(dropout, o) ? o.out[0] : Along::Nothing;
  };
  CHECK(dropped(Along::Split, Along::Same, Along::Split) == Along::Split);
  CHECK(dropped(Along::Split, Along::Same, Along::Nothing) == Along::Nothing);
  CHECK(dropped(Along::Split, Along::Same, Along::Same) == Along::Nothing);
  CHECK(dropped(Along::Split, Along::Tokens, Along::Split) == Along::Nothing);
  CHECK(dropped(Along::Partial, Along::Same, Along::Nothing) == Along::Partial);
  CHECK(dropped(Along::Partial, Along::Same, Along::Nothing, Along::Same) == Along::Nothing);
  CHECK(dropped(Along::Samples, Along::Samples, Along::Same) == Along::Samples);
  CHECK(dropped(Along::Same, Along::Same, Along::Split) == Along::Nothing);
}

TEST_CASE("where ranks have other matrices nothing of one is a term of a sum over them",
          "[core][ir]") {
  Kernel sums = kernel_of(KernelKind::FactorSums, false);
  for (const std::int64_t divided : {0, 1, 2}) {
    sums.dims[5] = divided;
    AxisOperands o;
    o.in = {Along::Matrices, Along::Same, Along::Matrices};
    REQUIRE(place(sums, o));
    for (const std::size_t i : {0U, 1U, 2U}) CHECK(o.out[i] == Along::Matrices);
    o.in = {Along::Split, Along::Same, Along::Split};  // parts of the same matrices
    REQUIRE(place(sums, o));
    CHECK((o.out[2] == Along::Partial) == (divided != 0));
    o.in = {Along::Matrices, Along::Same, Along::Split};
    CHECK_FALSE(place(sums, o));
  }
}

TEST_CASE("a product of parts of what is contracted is a term of a sum", "[core][ir]") {
  const Kernel product = kernel_of(KernelKind::Gemm, false);
  CHECK(made(product, Along::Split) == Along::Partial);
  CHECK(made(product, Along::Samples) == std::nullopt);  // weights of other samples
}

TEST_CASE("one scale of a divided tensor is that of all ranks, and those of blocks lie as they do",
          "[core][ir]") {
  const Kernel own = kernel_of(KernelKind::Quantize, false);
  const Kernel given = kernel_of(KernelKind::Quantize, true);
  CHECK(made(own, Along::Split) == Along::Split);
  AxisOperands o;
  for (const Along x : {Along::Split, Along::Tokens}) {
    o.in = {x, Along::Same};
    REQUIRE(place(given, o));
    CHECK(o.out[0] == x);
    CHECK(o.out[1] == Along::Same);
    o.in = {x, x};  // the largest of a part
    CHECK_FALSE(place(given, o));
  }
  CHECK(made(own, Along::Partial) == std::nullopt);

  const Kernel product = kernel_of(KernelKind::ScaledGemm, false);
  const auto place_product = [&](Along a, Along b, Along a_scales, bool by_rows) {
    Kernel k = product;
    k.dims[6] = by_rows ? 1 : 0;
    AxisOperands operands;
    operands.in = {a, b, Along::Nothing, Along::Nothing, a_scales, b};
    return place(k, operands) ? operands.out[0] : Along::Nothing;
  };
  CHECK(place_product(Along::Split, Along::Split, Along::Split, false) == Along::Partial);
  CHECK(place_product(Along::Split, Along::Split, Along::Same, false) == Along::Partial);
  CHECK(place_product(Along::Same, Along::Split, Along::Same, false) == Along::Split);
  CHECK(place_product(Along::Same, Along::Split, Along::Split, false) == Along::Nothing);
  CHECK(place_product(Along::Samples, Along::Samples, Along::Samples, true) == Along::Partial);
  CHECK(place_product(Along::Samples, Along::Samples, Along::Samples, false) == Along::Nothing);
  CHECK(place_product(Along::Split, Along::Same, Along::Split, false) == Along::Nothing);
}

TEST_CASE(
    "keys that several ranks share are the same beside each one's queries, their gradients terms",
    "[core][ir]") {
  AxisOperands o;
  o.in = {Along::Split, Along::Same};
  REQUIRE(place(kernel_of(KernelKind::JoinColumns, false), o));
  CHECK(o.out[0] == Along::SplitSame);
  const Kernel attention = kernel_of(KernelKind::AttentionForward, false);
  CHECK(made(attention, Along::SplitSame) == Along::Split);
  CHECK(made(attention, Along::SplitPartial) == std::nullopt);
  o = {};
  o.in = {Along::SplitSame, Along::Split, Along::Split, Along::Split};
  REQUIRE(place(kernel_of(KernelKind::AttentionBackward, false), o));
  CHECK(o.out[0] == Along::SplitPartial);
  o = {};
  o.in[0] = Along::SplitPartial;
  REQUIRE(place(kernel_of(KernelKind::PartColumns, false), o));
  CHECK(o.out[0] == Along::Split);
  CHECK(o.out[1] == Along::Partial);
}

TEST_CASE("the rotated key of latent attention is the same for heads that ranks divide",
          "[core][ir]") {
  const Kernel join = kernel_of(KernelKind::JoinLatent, false);
  AxisOperands o;
  o.in = {Along::Split, Along::Split, Along::Same};
  REQUIRE(place(join, o));
  CHECK(o.out[0] == Along::Split);
  o = {};
  o.in = {Along::Split, Along::Split, Along::Partial};
  CHECK_FALSE(place(join, o));
  CHECK_FALSE(made(join, Along::Split));  // a part of it for each
  CHECK(made(join, Along::Tokens) == Along::Tokens);
  o = {};
  o.in[0] = Along::Split;
  REQUIRE(place(kernel_of(KernelKind::PartLatent, false), o));
  CHECK(o.out[0] == Along::Split);
  CHECK(o.out[1] == Along::Split);
  CHECK(o.out[2] == Along::Partial);
}

TEST_CASE("what is put back stands beside zeros, or beside what is placed as it is", "[core][ir]") {
  Kernel regroup = kernel_of(KernelKind::Regroup, false);
  regroup.dims = {4, 1, 3, 0, 0, 1, 2};
  for (const auto& [before, placed] : {std::pair(Along::Zero, true),
                                       {Along::Split, true},
                                       {Along::Same, false},
                                       {Along::Partial, false}}) {
    AxisOperands o;
    o.in[0] = Along::Split;
    o.out[0] = before;
    CHECK(place(regroup, o) == placed);
  }
}

TEST_CASE("queries meet the keys that are passed on of every rank once, in turn", "[core][ir]") {
  constexpr int kRanks = 3;
  Kernel attention = kernel_of(KernelKind::AttentionForward, false);
  const auto meets = [&](bool accumulate, Along keys, Along before) {
    attention.accumulate = accumulate;
    AxisOperands o;
    o.ranks = kRanks;
    o.in = {Along::Tokens, keys, Along::Tokens};
    o.out = {before, before};
    return place(attention, o) && o.out[0] == o.out[1] ? o.out[0] : Along::Nothing;
  };
  Along result = meets(false, Along::Tokens, Along::Nothing);
  for (int turn = 1; turn < kRanks; ++turn) {
    CHECK(result != Along::Tokens);  // which nothing else reads
    CHECK(meets(true, passed(turn - 1, kRanks), result) == Along::Nothing);  // met before
    CHECK(meets(true, passed(turn + 1, kRanks), result) == Along::Nothing);  // one left out
    CHECK(meets(false, passed(turn, kRanks), Along::Nothing) ==
          Along::Nothing);  // not its own first
    result = meets(true, passed(turn, kRanks), result);
  }
  CHECK(result == Along::Tokens);
  CHECK(passed(kRanks, kRanks) == Along::Tokens);  // home again
  AxisOperands o;
  o.in = {passed(1, kRanks), passed(2, kRanks)};
  CHECK_FALSE(place(kernel_of(KernelKind::Add, false), o));  // gradients of two ranks' keys
}

TEST_CASE("ranks that divide each expert make parts of its features, and then terms of a sum",
          "[core][ir]") {
  Kernel product;
  product.kind = KernelKind::RaggedGemm;
  product.dims = {2, 2, 8, 4, 3, 5, 1, 2};
  product.in = {{0}, {1}, {}, {2}};
  product.out = {{3}};
  const auto of = [&](Along rows, Along weights, Along counts) {
    AxisOperands o;
    o.ranks = 2;
    o.in = {rows, weights, Along::Nothing, counts};
    return place(product, o) ? std::optional(o.out[0]) : std::nullopt;
  };
  CHECK(of(Along::AllPlaces, Along::Split, Along::Same) == Along::SplitPlaces);  // gathered rows
  CHECK(of(Along::SplitPlaces, Along::Split, Along::Same) == Along::PartialPlaces);
  // Without sequence parallelism every rank has all rows.
  CHECK(of(Along::Same, Along::Split, Along::Same) == Along::Split);
  CHECK(of(Along::Split, Along::Split, Along::Same) == Along::Partial);
  CHECK(of(Along::TokenExperts, Along::Split, Along::OwnExperts) == Along::TokenExperts);
  CHECK(of(Along::TokenPlaces, Along::Same, Along::Own) == Along::TokenPlaces);
  CHECK_FALSE(of(Along::TokenPlaces, Along::Split, Along::Own));   // rows that were not gathered
  CHECK_FALSE(of(Along::TokenExperts, Along::Split, Along::Own));  // counts of what was sent
  CHECK_FALSE(of(Along::AllPlaces, Along::Split, Along::Own));
  CHECK_FALSE(of(Along::PartialPlaces, Along::Split, Along::Same));  // terms of a sum

  product.kind = KernelKind::RaggedGemmWeight;
  product.dims = {2, 2, 8, 4, 3, 5, 2};
  product.in = {{0}, {1}, {2}};
  const auto gradient = [&](Along dy, Along x) {
    AxisOperands o;
    o.ranks = 2;
    o.in = {dy, x, Along::Same};
    return place(product, o) ? std::optional(o.out[0]) : std::nullopt;
  };
  CHECK(gradient(Along::SplitPlaces, Along::AllPlaces) == Along::Split);  // of the first product
  CHECK(gradient(Along::AllPlaces, Along::SplitPlaces) == Along::Split);  // of the second one
  CHECK_FALSE(gradient(Along::SplitPlaces, Along::SplitPlaces));
  CHECK_FALSE(gradient(Along::TokenPlaces, Along::SplitPlaces));
}

TEST_CASE("codes of counted rows lie as the rows do, and are multiplied with scales beside them",
          "[core][ir]") {
  Kernel quantize;
  quantize.kind = KernelKind::RaggedQuantize;
  quantize.dims = {4, 8, 4, 6, 1, 2, 1, 12};
  quantize.in = {{0}, {1}};
  quantize.out = {{2}, {3}};
  const auto codes = [&](Along rows, Along counts) {
    AxisOperands o;
    o.ranks = 2;
    o.in = {rows, counts};
    return place(quantize, o) ? std::optional(std::pair(o.out[0], o.out[1])) : std::nullopt;
  };
  CHECK(codes(Along::TokenExperts, Along::OwnExperts) ==
        std::pair(Along::TokenExperts, Along::TokenExperts));
  CHECK(codes(Along::AllPlaces, Along::Same) == std::pair(Along::AllPlaces, Along::AllPlaces));
  CHECK_FALSE(codes(Along::TokenExperts, Along::Own));
  CHECK_FALSE(codes(Along::PartialPlaces, Along::Same));  // terms of a sum round otherwise
  // A scale that is known is that of all ranks, and each finds the largest of its own rows.
  AxisOperands known;
  known.in = {Along::TokenExperts, Along::OwnExperts, Along::Same};
  Kernel measuring = quantize;
  measuring.in.push_back({4});
  measuring.out.push_back({5});
  REQUIRE(place(measuring, known));
  CHECK(known.out[2] == Along::Largest);
  known.in[2] = Along::TokenExperts;
  CHECK_FALSE(place(measuring, known));

  Kernel product;
  product.kind = KernelKind::RaggedScaledGemmWeight;
  product.dims = {2, 2, 12, 4, 6, 6, 2};
  product.in = {{0}, {1}, {2}, {3}, {4}};
  product.out = {{5}};
  const auto gradient = [&](Along dy, Along x, Along scales) {
    AxisOperands o;
    o.ranks = 2;
    o.in = {dy, x, dy, scales, Along::OwnExperts};
    return place(product, o) ? std::optional(o.out[0]) : std::nullopt;
  };
  CHECK(gradient(Along::TokenExperts, Along::TokenExperts, Along::TokenExperts) == Along::Split);
  CHECK_FALSE(gradient(Along::TokenExperts, Along::TokenExperts, Along::Same));
}

TEST_CASE("rows return from experts as they were sent, and are no heads", "[core][ir]") {
  AxisOperands o;
  o.in = {Along::Own, Along::Tokens};  // into places
  REQUIRE(place(kernel_of(KernelKind::EmbeddingForward, false), o));
  CHECK(o.out[0] == Along::TokenPlaces);
  o.in = {Along::Own, Along::TokenPlaces};  // and back
  REQUIRE(place(kernel_of(KernelKind::EmbeddingBackward, false), o));
  CHECK(o.out[0] == Along::Tokens);
  o = {};
  o.in = {Along::TokenExperts, Along::Split};  // a rank's own experts
  CHECK(place(kernel_of(KernelKind::GroupedGemm, false), o));
  o.in = {Along::TokenPlaces, Along::Split};  // that were not sent to them
  CHECK_FALSE(place(kernel_of(KernelKind::GroupedGemm, false), o));
  o.in = {Along::Tokens, Along::Same};  // rows that stand in no places
  CHECK_FALSE(place(kernel_of(KernelKind::GroupedGemm, false), o));
  for (const auto& [made, returns] :
       {std::pair{Along::TokenPlaces, true}, std::pair{Along::Tokens, false},
        std::pair{Along::PartialPlaces, false}, std::pair{Along::AllPlaces, false}}) {
    o.in = {made, Along::Tokens, Along::Own};
    CHECK(place(kernel_of(KernelKind::CombineForward, false), o) == returns);
    o.in = {Along::Own, made};
    CHECK(place(kernel_of(KernelKind::EmbeddingBackward, false), o) == returns);
  }
}
