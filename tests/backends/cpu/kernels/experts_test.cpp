#include <algorithm>
#include <numeric>

#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

std::int64_t i64(std::size_t n) { return static_cast<std::int64_t>(n); }

struct Groups {
  std::size_t groups, chunks, rows, n, k;
};
const Groups kGroups[] = {{1, 1, 1, 1, 1}, {3, 1, 5, 7, 4}, {2, 3, 4, 33, 20}, {5, 2, 17, 6, 40}};

TEST_CASE("products by expert are one product for every expert and chunk", "[backends][cpu]") {
  for (const Groups& s : kGroups) {
    const Values a = random_values(s.chunks * s.groups * s.rows * s.k, 1);
    const Values b = random_values(s.groups * s.n * s.k, 2);
    const Values bias = random_values(s.groups * s.n, 3);
    for (const bool tb : {false, true}) {
      for (const bool with_bias : {false, true}) {
        Values c(s.chunks * s.groups * s.rows * s.n);
        for (std::size_t i = 0; i < c.size(); ++i) {
          const std::size_t col = i % s.n, row = i / s.n, g = row / s.rows % s.groups;
          c[i] = with_bias ? bias[g * s.n + col] : 0;
          for (std::size_t k = 0; k < s.k; ++k) {
            const std::size_t at = tb ? (g * s.n + col) * s.k + k : (g * s.k + k) * s.n + col;
            c[i] += a[row * s.k + k] * b[at];
          }
        }
        KernelCase test{KernelKind::GroupedGemm};
        test.dims = {i64(s.groups), i64(s.chunks), i64(s.rows), i64(s.n), i64(s.k), tb};
        test.in = {{a}, {b}, {with_bias ? bias : Values{}}};
        test.out = {{c.size()}};
        check_case(test, {c}, 1e-6, 1e-15);
      }
    }
  }
}

TEST_CASE("the gradient of an expert's weights adds up its rows in all chunks", "[backends][cpu]") {
  for (const Groups& s : kGroups) {
    const Values dy = random_values(s.chunks * s.groups * s.rows * s.n, 1);
    const Values x = random_values(s.chunks * s.groups * s.rows * s.k, 2);
    const Values old_w = random_values(s.groups * s.n * s.k, 3);
    const Values old_b = random_values(s.groups * s.n, 4);
    for (const bool accumulate : {false, true}) {
      Values w = accumulate ? old_w : Values(old_w.size(), 0);
      Values b = accumulate ? old_b : Values(old_b.size(), 0);
      for (std::size_t row = 0; row < s.chunks * s.groups * s.rows; ++row) {
        const std::size_t g = row / s.rows % s.groups;
        for (std::size_t n = 0; n < s.n; ++n) {
          b[g * s.n + n] += dy[row * s.n + n];
          for (std::size_t k = 0; k < s.k; ++k) {
            w[(g * s.n + n) * s.k + k] += dy[row * s.n + n] * x[row * s.k + k];
          }
        }
      }
      KernelCase test{KernelKind::GroupedGemmWeight};
      test.dims = {i64(s.groups), i64(s.chunks), i64(s.rows), i64(s.n), i64(s.k)};
      test.in = {{dy}, {x}};
      test.out = {{w.size()}, {b.size()}};
      test.accumulate = accumulate;
      if (accumulate) {
        test.out[0].initial = old_w;
        test.out[1].initial = old_b;
      }
      check_case(test, {w, b}, 1e-6, 1e-14);
      test.out[1].n = 0;
      check_case(test, {w}, 1e-6, 1e-14);
    }
  }
}

struct Routing {
  std::size_t tokens, experts, choices, capacity;
  std::vector<std::int64_t> dims() const {
    return {i64(tokens), i64(experts), i64(choices), i64(capacity)};
  }
};
const Routing kRoutings[] = {{1, 1, 1, 1},   {7, 3, 1, 2},   {12, 4, 2, 6},
                             {40, 5, 3, 11}, {33, 8, 2, 33}, {64, 20, 4, 5}};

KernelCase route_case(const Routing& r, const Values& logits) {
  KernelCase c{KernelKind::RouteForward};
  c.dims = r.dims();
  c.in = {{logits}};
  c.out = {{r.tokens * r.experts},
           {r.tokens * r.choices},
           {r.tokens * r.choices},
           {r.experts * r.capacity}};
  return c;
}

TEST_CASE("first choices take their places before second ones, in the order of tokens",
          "[backends][cpu]") {
  // Experts 0 to 2 have two places each. For tokens 1 and 3, experts 0 and 1 are equal; they take
  // the first.
  const Routing r{4, 3, 2, 2};
  const Values logits = {3, 2, 1,  //
                         2, 2, 0,  //
                         2, 1, 3,  //
                         4, 4, 1};
  const auto out = run_everywhere(route_case(r, logits)).front();
  // First choices are 0 0 2 0, of which the last finds expert 0 full. Second choices are 1 1 0 1,
  // of which the third finds expert 0 full and the last expert 1.
  CHECK(out[2] == Values{0, 2, 1, 3, 4, -1, -1, -2});
  CHECK(out[3] == Values{0, 1, 0, 1, 2, -1});
  CHECK(out[1][2] == Approx(0.5));
  CHECK(out[1][4] == Approx(1 / (1 + std::exp(-1.0))));
}

TEST_CASE("routing equals sorting the probabilities", "[backends][cpu]") {
  for (const Routing& r : kRoutings) {
    INFO(r.tokens << " " << r.experts << " " << r.choices);
    const Values logits = random_values(r.tokens * r.experts, 5, 3.0);
    Values probs(logits.size()), gates(r.tokens * r.choices), slots(gates.size());
    Values sources(r.experts * r.capacity, -1);
    for (std::size_t t = 0; t < r.tokens; ++t) {
      double sum = 0;
      for (std::size_t e = 0; e < r.experts; ++e) sum += std::exp(logits[t * r.experts + e]);
      for (std::size_t e = 0; e < r.experts; ++e) {
        probs[t * r.experts + e] = std::exp(logits[t * r.experts + e]) / sum;
      }
    }
    std::vector<std::size_t> taken(r.experts, 0);
    for (std::size_t c = 0; c < r.choices; ++c) {
      for (std::size_t t = 0; t < r.tokens; ++t) {
        std::vector<std::size_t> order(r.experts);
        std::iota(order.begin(), order.end(), std::size_t{0});
        const double* const p = &probs[t * r.experts];
        std::stable_sort(order.begin(), order.end(),
                         [p](std::size_t a, std::size_t b) { return p[a] > p[b]; });
        double sum = 0;
        for (std::size_t k = 0; k < r.choices; ++k) sum += p[order[k]];
        const std::size_t e = order[c], at = t * r.choices + c;
        gates[at] = r.choices == 1 ? p[e] : p[e] / sum;
        if (taken[e] < r.capacity) {
          const std::size_t place = e * r.capacity + taken[e]++;
          slots[at] = double(place);
          sources[place] = double(t);
        } else {
          slots[at] = -1 - double(e);
        }
      }
    }
    check_case(route_case(r, logits), {probs, gates, slots, sources}, 1e-6, 1e-14);
  }
}

TEST_CASE("the router's gradient is the slope of gates and of the auxiliary loss",
          "[backends][cpu]") {
  for (const Routing& r : kRoutings) {
    INFO(r.tokens << " " << r.experts << " " << r.choices);
    const Values logits = random_values(r.tokens * r.experts, 5, 3.0);
    const Values dgates = random_values(r.tokens * r.choices, 6);
    const double balance = 0.7;
    const auto at = run(route_case(r, logits));
    // balance × experts × sum over experts of (part of the choices) × (sum of probabilities).
    Values part(r.experts, 0);
    for (const double slot : at[2]) {
      const double e = slot < 0 ? -1 - slot : std::floor(slot / double(r.capacity));
      part[e] += 1.0 / double(r.tokens * r.choices);
    }
    const auto value = [&](const Values& x) {
      const auto out = run(route_case(r, x));
      double aux = 0;
      for (std::size_t i = 0; i < out[0].size(); ++i) aux += part[i % r.experts] * out[0][i];
      return dot(dgates, out[1]) + balance * double(r.experts) * aux;
    };
    Values expected(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      constexpr double h = 1e-5;
      Values up = logits, down = logits;
      up[i] += h;
      down[i] -= h;
      expected[i] = (value(up) - value(down)) / (2 * h);
    }
    KernelCase c{KernelKind::RouteBackward};
    c.dims = r.dims();
    c.scalars = {balance};
    c.in = {{dgates}, {at[0]}, {at[2]}};
    c.out = {{logits.size()}};
    check_case(c, {r.experts > 1 ? expected : Values{}}, 1e-5, 1e-7);
  }
}

TEST_CASE("combination weighs what the experts made, and its gradient is its slope",
          "[backends][cpu]") {
  for (const std::size_t cols : {std::size_t{1}, std::size_t{7}, std::size_t{70}}) {
    for (const Routing& r : kRoutings) {
      const auto routed = run(route_case(r, random_values(r.tokens * r.experts, 5, 3.0)));
      const Values &gates = routed[1], &slots = routed[2];
      const std::size_t places = r.experts * r.capacity;
      const Values x = random_values(places * cols, 7),
                   residual = random_values(r.tokens * cols, 8);
      const Values dy = random_values(r.tokens * cols, 9);
      Values y = residual, dx(x.size(), 0), dgates(gates.size(), 0);
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (slots[i] < 0) continue;
        const std::size_t t = i / r.choices, from = static_cast<std::size_t>(slots[i]) * cols;
        for (std::size_t c = 0; c < cols; ++c) {
          y[t * cols + c] += gates[i] * x[from + c];
          dx[from + c] = gates[i] * dy[t * cols + c];
          dgates[i] += dy[t * cols + c] * x[from + c];
        }
      }
      const std::vector<std::int64_t> dims = {i64(r.tokens), i64(cols), i64(r.choices),
                                              i64(places)};
      KernelCase forward{KernelKind::CombineForward};
      forward.dims = dims;
      forward.in = {{x}, {gates}, {slots}, {residual}};
      forward.out = {{y.size()}};
      check_case(forward, {y}, 1e-6, 1e-14);
      KernelCase backward{KernelKind::CombineBackward};
      backward.dims = dims;
      backward.in = {{dy}, {x}, {gates}, {slots}};
      backward.out = {{dx.size()}, {dgates.size()}};
      check_case(backward, {dx, dgates}, 1e-5, 1e-14);
      const Values direction = random_values(x.size(), 10), along = random_values(gates.size(), 11);
      CHECK(slope(forward, 0, direction, dy) == Approx(dot(direction, dx)).margin(1e-8));
      CHECK(slope(forward, 1, along, dy) == Approx(dot(along, dgates)).margin(1e-8));
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu::test
