// Cases for the kernels of experts.
#include "tests/integration/conformance_cases.hpp"

namespace lockstep::test {

using K = KernelKind;

void ConformanceCases::grouped_gemm(std::int64_t groups, std::int64_t chunks, std::int64_t m,
                                    std::int64_t n, std::int64_t k) {
  const std::int64_t parts = groups * chunks;
  for (const std::int64_t tb : {0, 1}) {
    const std::vector<std::int64_t> dims = {groups, chunks, m, n, k, tb};
    const Numbers a = random(parts * m * k), b = random(groups * k * n);
    add({.kind = K::GroupedGemm, .dims = dims, .in = {a, b, {}}});
    add({.kind = K::GroupedGemm, .dims = dims, .in = {a, b, random(groups * n)}});
    add({.kind = K::GroupedGemm,
         .dims = dims,
         .in = {a, b, {}},
         .initial = {random(parts * m * n)},
         .accumulate = true});
  }
  // The gradients are chunks × m rows, each of width n.
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

void ConformanceCases::ragged(std::int64_t groups, std::int64_t chunks, std::int64_t n,
                              std::int64_t k) {
  for (const std::int64_t blocks : {std::int64_t{1}, chunks}) ragged(groups, chunks, n, k, blocks);
}

void ConformanceCases::ragged(std::int64_t groups, std::int64_t chunks, std::int64_t n,
                              std::int64_t k, std::int64_t blocks) {
  Numbers counts;
  std::int64_t rows = 0;
  for (std::int64_t part = 0; part < groups * chunks; ++part) {
    counts.push_back(static_cast<double>(part * 13 % 23));
    rows += part * 13 % 23;
  }
  const std::int64_t places = blocks == 1 ? rows + 3 : blocks * (groups * 22 + 3);
  const Numbers a = wave(places * k, 1.0), b = wave(groups * k * n, 0.7);
  for (const std::int64_t tb : {0, 1}) {
    for (const Numbers& bias : {Numbers{}, wave(groups * n, 2.0)}) {
      add({.kind = K::RaggedGemm,
           .dims = {groups, chunks, places, rows, n, k, tb, blocks},
           .in = {a, b, bias, counts},
           .initial = {wave(places * n, 5.0)},
           .accumulate = !bias.empty()});
    }
  }
  for (const bool accumulate : {false, true}) {
    ConformanceCase weight{.kind = K::RaggedGemmWeight,
                           .dims = {groups, chunks, places, rows, n, k, blocks},
                           .in = {wave(places * n, 1.0), a, counts},
                           .accumulate = accumulate,
                           .absent_out = {false, accumulate},
                           .wide_out = "ww"};
    if (accumulate) weight.initial = {wave(groups * n * k, 3.0), {}};
    add(weight);
  }
  for (const std::int64_t gated : {0, 1}) {
    const std::vector<std::int64_t> dims = {places, rows, n, gated, groups * chunks, blocks};
    const Numbers x = wave(places * n * (1 + gated), 2.0);
    add({.kind = K::RaggedActivationForward,
         .dims = dims,
         .in = {x, counts},
         .initial = {wave(places * n, 5.0)}});
    add({.kind = K::RaggedActivationBackward,
         .dims = dims,
         .in = {wave(places * n, 1.0), x, counts},
         .initial = {wave(places * n * (1 + gated), 5.0)}});
  }
}

void ConformanceCases::route(std::int64_t tokens, std::int64_t experts, std::int64_t choices,
                             std::int64_t capacity, std::int64_t cols) {
  const std::vector<std::int64_t> dims = {tokens, experts, choices, capacity};
  const ConformanceCase forward{.kind = K::RouteForward,
                                .dims = dims,
                                .in = {random(tokens * experts, 4.0)},
                                .absent_out = {false, false, false, false, capacity > 0},
                                .wide_in = "w",
                                .wide_out = capacity > 0 ? "ww--" : "ww---"};
  add(forward);
  ConformanceCase biased = forward;
  biased.in.push_back(wave(experts, 0.3));
  biased.wide_in = "ww";
  add(biased);
  const auto routed = outputs(forward);
  const Numbers &probs = routed[0], &gates = routed[1], &slots = routed[2];
  const std::int64_t places = capacity > 0 ? experts * capacity : tokens * choices;
  /// Inputs with those behind them that are there without a capacity.
  const auto with_counts = [&](std::vector<Numbers> in, std::size_t at, const Numbers& counts) {
    if (capacity > 0) return in;
    in.resize(at);
    in.push_back(counts);
    return in;
  };
  const Numbers counts = capacity > 0 ? Numbers{} : routed[4];
  add({.kind = K::RouteBackward,
       .dims = dims,
       .scalars = {0.01},
       .in = with_counts({random(tokens * choices), probs, slots}, 4, counts),
       .wide_in = "ww-",
       .wide_out = "w"});
  add({.kind = K::RouteBackward,
       .dims = dims,
       .scalars = {0.01},
       .in = with_counts({wave(tokens * choices, 1.0), probs, slots, {64.0}}, 4, counts),
       .wide_in = "ww-",
       .wide_out = "w"});
  const ConformanceCase count{.kind = K::RouteLoad,
                              .dims = dims,
                              .in = with_counts({slots}, 1, counts),
                              .wide_in = "-",
                              .wide_out = "w"};
  add(count);
  ConformanceCase more = count;
  more.accumulate = true;
  more.initial = {counted(experts, 5)};
  add(more);
  // A negative coefficient: nothing changes.
  for (const Numbers& coefficient : {Numbers{}, Numbers{0.25}, Numbers{-1.0}}) {
    add({.kind = K::RouterBias,
         .dims = {experts},
         .scalars = {0.01},
         .in = {outputs(count)[0], coefficient},
         .initial = {wave(experts, 0.5), counted(experts, 7)},
         .wide_in = coefficient.empty() ? "w" : "ww",
         .wide_out = " w"});
  }
  add({.kind = K::RouteBalance,
       .dims = {tokens, experts},
       .scalars = {0.01},
       .in = {random(tokens * experts), probs, outputs(count)[0]},
       .wide_in = "www",
       .wide_out = "w"});
  add({.kind = K::RouteBalance,
       .dims = {tokens, experts},
       .scalars = {0.01},
       .in = {wave(tokens * experts, 1.0), probs, outputs(count)[0], {64.0}},
       .wide_in = "www",
       .wide_out = "w"});
  // Probabilities of each expert by itself.
  const std::vector<std::int64_t> alone = {tokens, experts, choices, capacity, 1};
  const ConformanceCase sigmoids{.kind = K::RouteForward,
                                 .dims = alone,
                                 .in = {wave(tokens * experts, 3.0), wave(experts, 0.3)},
                                 .absent_out = {false, false, false, false, capacity > 0},
                                 .wide_in = "ww",
                                 .wide_out = capacity > 0 ? "ww--" : "ww---"};
  add(sigmoids);
  const auto chosen = outputs(sigmoids);
  add({.kind = K::RouteBackward,
       .dims = alone,
       .scalars = {0.01},
       .in = with_counts({wave(tokens * choices, 1.0), chosen[0], chosen[2]}, 4,
                         capacity > 0 ? Numbers{} : chosen[4]),
       .wide_in = "ww-",
       .wide_out = "w"});
  add({.kind = K::RouteBalance,
       .dims = {tokens, experts, 1},
       .scalars = {0.01},
       .in = {wave(tokens * experts, 1.0), chosen[0], outputs(count)[0]},
       .wide_in = "www",
       .wide_out = "w"});
  const std::vector<std::int64_t> combined = {tokens, cols, choices, places};
  const Numbers x = random(places * cols);
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

void ConformanceCases::gate(std::int64_t rows, std::int64_t cols) {
  const Numbers x = wave(rows * cols, 1.0), logits = wave(rows, 6.0);
  for (const bool resid : {false, true}) {
    add({.kind = K::GateForward,
         .dims = {rows, cols},
         .in = {x, logits, resid ? wave(rows * cols, 2.0) : Numbers{}},
         .wide_in = "-w-"});
  }
  add({.kind = K::GateBackward,
       .dims = {rows, cols},
       .in = {wave(rows * cols, 2.0), x, logits},
       .wide_in = "--w",
       .wide_out = "-w"});
}

}  // namespace lockstep::test
