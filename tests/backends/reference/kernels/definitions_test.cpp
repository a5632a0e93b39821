// Tests the definitions, which judge all other kernels: gradients are compared with the slopes of
// what they are gradients of, and what has no gradient with numbers that were computed by hand.
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "backends/reference/kernels/kernels.hpp"
#include "core/base/dropout.hpp"
#include "tests/catch.hpp"

namespace lockstep::reference {
namespace {

using K = KernelKind;
using Values = std::vector<double>;

/// A kernel on operands of float64, including indices; an empty operand is absent. `out` says how
/// many outputs there are and what they hold before; the others hold zero.
struct Call {
  K kind;
  std::vector<std::int64_t> dims = {};
  std::vector<Values> in = {};
  std::vector<double> scalars = {};
  std::vector<Values> out = {};
  bool accumulate = false;
  StepContext context = {};
};

std::vector<Values> run(const Call& call) {
  Kernel kernel;
  kernel.kind = call.kind;
  kernel.dtype = DType::F64;
  kernel.accumulate = call.accumulate;
  std::copy(call.dims.begin(), call.dims.end(), kernel.dims.begin());
  std::copy(call.scalars.begin(), call.scalars.end(), kernel.scalars.begin());
  std::vector<Values> memory = call.in;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const auto formal = static_cast<std::int16_t>(call.in[i].empty() ? -1 : std::int64_t(i));
    kernel.in.push_back({formal, DType::F64, 0});
  }
  const std::size_t outputs = info(call.kind).out.size();
  for (std::size_t i = 0; i < outputs; ++i) {
    kernel.out.push_back({static_cast<std::int16_t>(memory.size() + i), DType::F64, 0});
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    memory.emplace_back(static_cast<std::size_t>(output_elements(kernel, i)), 0.0);
    if (i < call.out.size()) memory.back() = call.out[i];
  }
  std::vector<std::byte*> buffers;
  for (Values& values : memory) buffers.push_back(reinterpret_cast<std::byte*>(values.data()));
  run_kernel(kernel, buffers, call.context);
  return {memory.end() - static_cast<std::ptrdiff_t>(outputs), memory.end()};
}

Values random(std::int64_t n, double scale = 1) {
  static std::mt19937 engine(23);
  std::uniform_real_distribution<double> uniform(-scale, scale);
  Values values(static_cast<std::size_t>(n));
  for (double& x : values) x = uniform(engine);
  return values;
}

double dot(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Checks that `gradient` is that of value(x), by central differences along some random directions.
void check_slope(const std::function<double(const Values&)>& value, const Values& x,
                 const Values& gradient) {
  constexpr double h = 1e-5;
  for (int i = 0; i < 3; ++i) {
    const Values direction = random(std::ssize(x));
    Values up = x, down = x;
    for (std::size_t j = 0; j < x.size(); ++j) {
      up[j] += h * direction[j];
      down[j] -= h * direction[j];
    }
    CHECK((value(up) - value(down)) / (2 * h) ==
          Approx(dot(direction, gradient)).epsilon(1e-6).margin(1e-7));
  }
}

/// The same for input `which` of a kernel, where `dy` is the gradient of the kernel's first output.
void check_input(const Call& forward, std::size_t which, const Values& dy, const Values& gradient) {
  const auto value = [&](const Values& x) {
    Call at = forward;
    at.in[which] = x;
    return dot(dy, run(at)[0]);
  };
  check_slope(value, forward.in[which], gradient);
}

/// Scalars of attention that drops nothing: the usual scores, scaled, capped, and both.
const Values kScorings[] = {{0, 0, 0}, {0, 0.9, 0}, {0, 0, 1.5}, {0, 0.9, 0.7}};

void check_gradients_of_attention(const Values& scalars) {
  const Values dy = random(2 * 6 * 4 * 3);
  const Call own{K::AttentionForward, {2, 6, 4, 2, 3, 0}, {random(2 * 6 * 8 * 3, 2)}, scalars};
  const auto kept = run(own);
  check_input(own, 0, dy,
              run({K::AttentionBackward, own.dims, {own.in[0], kept[0], kept[1], dy}, scalars})[0]);
  const Call all{K::AttentionForward,
                 {2, 6, 4, 2, 3, 2},
                 {random(2 * 6 * 8 * 3, 2), random(2 * 2 * 6 * 4 * 3, 2), {3, 6, 0, 9, 3, 6}},
                 scalars};
  const auto saved = run(all);
  const auto back = run({K::AttentionBackward,
                         all.dims,
                         {all.in[0], saved[0], saved[1], dy, all.in[1], all.in[2]},
                         scalars});
  check_input(all, 0, dy, back[0]);
  check_input(all, 1, dy, back[1]);
  // Keys that come by one rank after the other: its own, then the other's, which are all later than
  // its first piece of queries.
  const auto part = [&](std::size_t p) {
    const std::size_t n = all.in[1].size() / 2;
    return Values(all.in[1].begin() + static_cast<std::ptrdiff_t>(p * n),
                  all.in[1].begin() + static_cast<std::ptrdiff_t>((p + 1) * n));
  };
  const Values front = {0, 9, 0, 9}, other = {0, 9, 3, 6};
  const Call gathered{
      K::AttentionForward, {2, 6, 4, 2, 3, 2}, {all.in[0], all.in[1], {0, 9, 0, 9, 3, 6}}, scalars};
  const auto wanted = run(gathered);
  Call turn{K::AttentionForward, {2, 6, 4, 2, 3, 1}, {all.in[0], part(0), front}, scalars};
  const auto first = run(turn);
  turn.in = {all.in[0], part(1), other};
  turn.out = first;
  turn.accumulate = true;
  const auto both = run(turn);
  for (const std::size_t i : {0, 1}) {
    for (std::size_t k = 0; k < wanted[i].size(); ++k) {
      CHECK(both[i][k] == Approx(wanted[i][k]).epsilon(1e-13));
    }
  }
  const auto d_wanted = run({K::AttentionBackward,
                             gathered.dims,
                             {all.in[0], wanted[0], wanted[1], dy, all.in[1], gathered.in[2]},
                             scalars});
  Call d_turn{K::AttentionBackward,
              turn.dims,
              {all.in[0], wanted[0], wanted[1], dy, part(0), front},
              scalars};
  const auto d_first = run(d_turn);
  d_turn.in[4] = part(1);
  d_turn.in[5] = other;
  d_turn.out = {d_first[0]};
  d_turn.accumulate = true;
  const auto d_both = run(d_turn);
  for (std::size_t k = 0; k < d_wanted[0].size(); ++k) {
    CHECK(d_both[0][k] == Approx(d_wanted[0][k]).epsilon(1e-12).margin(1e-13));
  }
  for (std::size_t k = 0; k < d_first[1].size(); ++k) {
    CHECK(d_first[1][k] == Approx(d_wanted[1][k]).epsilon(1e-12).margin(1e-13));
    CHECK(d_both[1][k] == Approx(d_wanted[1][d_first[1].size() + k]).epsilon(1e-12).margin(1e-13));
  }
}

}  // namespace

TEST_CASE("a product is the sum of products, transposed or not", "[backends][reference]") {
  // a = [1 2; 3 4; 5 6], b = [1 0 2; 0 1 3]: a b = [1 2 8; 3 4 18; 5 6 28].
  const Values a = {1, 2, 3, 4, 5, 6}, at = {1, 3, 5, 2, 4, 6};
  const Values b = {1, 0, 2, 0, 1, 3}, bt = {1, 0, 0, 1, 2, 3};
  const Values c = {1, 2, 8, 3, 4, 18, 5, 6, 28};
  CHECK(run({K::Gemm, {3, 3, 2, 0, 0}, {a, b}})[0] == c);
  CHECK(run({K::Gemm, {3, 3, 2, 1, 0}, {at, b}})[0] == c);
  CHECK(run({K::Gemm, {3, 3, 2, 0, 1}, {a, bt}})[0] == c);
  CHECK(run({K::Gemm, {3, 3, 2, 1, 1}, {at, bt}})[0] == c);
  Call all{K::Gemm, {3, 3, 2, 0, 0}, {a, b, {10, 20, 30}, Values(9, 100)}};
  CHECK(run(all)[0] == Values{111, 122, 138, 113, 124, 148, 115, 126, 158});
  all.out = {Values(9, 1000)};
  all.accumulate = true;
  CHECK(run(all)[0] == Values{1111, 1122, 1138, 1113, 1124, 1148, 1115, 1126, 1158});
  CHECK(run({K::ColumnSum, {3, 2}, {a}})[0] == Values{9, 12});
}

TEST_CASE("gradients of norms are their slopes", "[backends][reference]") {
  const Values dy = random(4 * 7), w = random(7);
  for (const bool centered : {true, false}) {
    Call forward{
        centered ? K::LayerNormForward : K::RmsNormForward, {4, 7}, {random(28, 3), w}, {1e-2}};
    if (centered) forward.in.push_back(random(7));
    const Values& x = forward.in[0];
    const Values stats = run(forward)[1];
    check_input(forward, 0, dy,
                run({centered ? K::LayerNormBackwardInput : K::RmsNormBackwardInput,
                     {4, 7},
                     {dy, x, w, stats}})[0]);
    const auto weights = run(
        {centered ? K::LayerNormBackwardWeight : K::RmsNormBackwardWeight, {4, 7}, {dy, x, stats}});
    check_input(forward, 1, dy, weights[0]);
    if (centered) check_input(forward, 2, dy, weights[1]);
  }
}

TEST_CASE("gradients of activation functions are their slopes", "[backends][reference]") {
  const Values dy = random(24);
  const Call gelu{K::GeluForward, {24}, {random(24, 5)}};
  check_input(gelu, 0, dy, run({K::GeluBackward, {24}, {dy, gelu.in[0]}})[0]);
  CHECK(run({K::GeluForward, {1}, {{1}}})[0][0] == Approx(0.8411919906082768).epsilon(1e-14));
  const Call swiglu{K::SwigluForward, {4, 6}, {random(48, 4)}};
  check_input(swiglu, 0, dy, run({K::SwigluBackward, {4, 6}, {dy, swiglu.in[0]}})[0]);
  const Call geglu{K::GegluForward, {4, 6}, {random(48, 4)}};
  check_input(geglu, 0, dy, run({K::GegluBackward, {4, 6}, {dy, geglu.in[0]}})[0]);
  const Call cap{K::SoftcapForward, {24}, {random(24, 4)}, {1.5}};
  check_input(cap, 0, dy, run({K::SoftcapBackward, {24}, {dy, cap.in[0]}, {1.5}})[0]);
  CHECK(run({K::SoftcapForward, {2}, {{0.5, 50}}, {2}})[0][0] ==
        Approx(0.4898373248074184).epsilon(1e-14));  // 2 tanh(1/4)
  CHECK(run({K::SquaredReluForward, {3}, {{-2, 0, 3}}})[0] == Values{0, 0, 9});
  CHECK(run({K::SquaredReluBackward, {3}, {{5, 6, 7}, {-2, 0, 3}}})[0] == Values{0, 0, 42});
  CHECK(run({K::ReluForward, {3}, {{-2, 0, 2}}})[0] == Values{0, 0, 2});
  CHECK(run({K::ReluBackward, {3}, {{5, 6, 7}, {0, 0, 2}}})[0] == Values{0, 0, 7});
}

TEST_CASE("gradients of attention are its slopes, keys gathered or not", "[backends][reference]") {
  for (const Values& scalars : kScorings) {
    INFO("scale " << scalars[1] << ", cap " << scalars[2]);
    check_gradients_of_attention(scalars);
  }
  // The first token sees itself alone: its output is its value.
  const Values qkv = {0.3, 0.7, 5, -1, 2, 9};
  CHECK(run({K::AttentionForward, {1, 2, 1, 1, 1, 0}, {qkv}})[0][0] == 5);
}

TEST_CASE("scores are scaled with what is given, and capped", "[backends][reference]") {
  // Two tokens, of which the second one's result and its gradient are written out.
  const double q = -1.3, k[] = {0.7, 2}, v[] = {5, 9}, dy = 0.6;
  const Values qkv = {0.3, k[0], v[0], q, k[1], v[1]};
  for (const auto& [given, cap] :
       std::vector<std::pair<double, double>>{{0, 0}, {0, 0.8}, {0.25, 0}, {0.25, 0.8}, {3, 50}}) {
    INFO("scale " << given << ", cap " << cap);
    const double scale = given > 0 ? given : 1;  // of heads of one element
    double score[2], slope[2];
    for (const std::size_t j : {0, 1}) {
      const double scaled = scale * q * k[j], e = std::exp(2 * scaled / cap);
      score[j] = cap > 0 ? cap * (e - 1) / (e + 1) : scaled;
      slope[j] = cap > 0 ? 4 * e / ((e + 1) * (e + 1)) : 1;
    }
    const double sum = std::exp(score[0]) + std::exp(score[1]), p = std::exp(score[1]) / sum;
    const Values scalars = {0, given, cap};
    const auto found = run({K::AttentionForward, {1, 2, 1, 1, 1}, {qkv}, scalars});
    CHECK(found[0][1] == Approx((1 - p) * v[0] + p * v[1]).epsilon(1e-14));
    CHECK(found[1][1] == Approx(std::log(sum)).epsilon(1e-14));
    const Values d = run(
        {K::AttentionBackward, {1, 2, 1, 1, 1}, {qkv, found[0], found[1], {0, dy}}, scalars})[0];
    const double ds = p * (1 - p) * (v[1] - v[0]) * dy * scale;  // of the second score
    CHECK(d[3] == Approx(ds * (slope[1] * k[1] - slope[0] * k[0])).epsilon(1e-13));
    CHECK(d[1] == Approx(-ds * slope[0] * q).epsilon(1e-13));
    CHECK(d[4] == Approx(ds * slope[1] * q).epsilon(1e-13));
    CHECK(d[5] == Approx(p * dy).epsilon(1e-14));
  }
}

TEST_CASE("gradients of attention in documents are its slopes, with a cap, too",
          "[backends][reference]") {
  const Values dy = random(2 * 6 * 4 * 3), starts = {0, 0, 2, 2, 2, 5, 0, 1, 1, 1, 4, 4};
  for (const Values& scalars : kScorings) {
    INFO("scale " << scalars[1] << ", cap " << scalars[2]);
    const Call call{K::AttentionForward,
                    {2, 6, 4, 2, 3, 0, 3},
                    {random(2 * 6 * 8 * 3, 2), {}, {}, starts},
                    scalars};
    const auto kept = run(call);
    check_input(call, 0, dy,
                run({K::AttentionBackward,
                     call.dims,
                     {call.in[0], kept[0], kept[1], dy, {}, {}, starts},
                     scalars})[0]);
  }
}

TEST_CASE("gradients of a gate are its slopes", "[backends][reference]") {
  const Values dy = random(4 * 6);
  const Call gate{K::GateForward, {4, 6}, {random(4 * 6, 2), random(4, 3), random(4 * 6)}};
  const auto d = run({K::GateBackward, {4, 6}, {dy, gate.in[0], gate.in[1]}});
  check_input(gate, 0, dy, d[0]);
  check_input(gate, 1, dy, d[1]);
  CHECK(run({K::GateForward, {1, 2}, {{4, 6}, {0}, {1, 1}}})[0] == Values{3, 4});  // half open
}

TEST_CASE("a rotation turns pairs by their angle, and back", "[backends][reference]") {
  const Values x = random(2 * 3 * 2 * 4);
  Call rope{K::Rope, {2, 3, 2, 4, 2, 0}, {x}, {100}, {x}};
  const Values turned = run(rope)[0];
  // Of the second position and the second pair (1, 3), the angle is 100^(-2/4) = 0.1.
  CHECK(turned[9] == Approx(x[9] * std::cos(0.1) - x[11] * std::sin(0.1)));
  CHECK(turned[11] == Approx(x[11] * std::cos(0.1) + x[9] * std::sin(0.1)));
  rope = {K::Rope, {2, 3, 2, 4, 2, 1}, {turned}, {100}, {turned}};
  const Values back = run(rope)[0];
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(back[i] == Approx(x[i]).margin(1e-14));
}

TEST_CASE("a rotation leaves the first elements of a head", "[backends][reference]") {
  const Values x = random(3 * 2 * 7);
  const Values turned = run({K::Rope, {1, 3, 2, 4, 2, 0, 3}, {x}, {100}, {x}})[0];
  for (std::size_t token = 0; token < 3; ++token) {
    for (std::size_t head = 0; head < 2; ++head) {
      const std::size_t first = (token * 2 + head) * 7;
      for (std::size_t i = 0; i < 3; ++i) CHECK(turned[first + i] == x[first + i]);
      const double angle = 0.1 * static_cast<double>(token);  // of the second pair
      CHECK(turned[first + 4] ==
            Approx(x[first + 4] * std::cos(angle) - x[first + 6] * std::sin(angle)));
    }
  }
}

TEST_CASE("a rotation leaves the last elements of a head", "[backends][reference]") {
  const Values x = random(3 * 2 * 7);
  const Values turned = run({K::Rope, {1, 3, 2, 4, 2, 0, 0, 3}, {x}, {100}, {x}})[0];
  for (std::size_t first = 0; first < x.size(); first += 7) {
    for (std::size_t i = 4; i < 7; ++i) CHECK(turned[first + i] == x[first + i]);
    const std::size_t token = first / 14;
    const double angle = 0.1 * static_cast<double>(token);  // of the second pair
    CHECK(turned[first + 1] ==
          Approx(x[first + 1] * std::cos(angle) - x[first + 3] * std::sin(angle)));
  }
}

TEST_CASE("gradients of embeddings and of the loss are their slopes", "[backends][reference]") {
  const Values ids = {2, 0, -1, 2, 5, 1}, dy = random(6 * 4);
  const Call embedding{K::EmbeddingForward, {6, 4, 3, 5}, {ids, random(5 * 4), random(3 * 4)}};
  const auto d = run({K::EmbeddingBackward, {6, 4, 3, 5}, {ids, dy}});
  check_input(embedding, 1, dy, d[0]);
  check_input(embedding, 2, dy, d[1]);
  const Values targets = {3, 0, 6}, logits = random(21, 3);
  const auto loss = [&](const Values& x) {
    return run({K::CrossEntropy, {3, 7}, {x, targets}, {0.5}})[1][0];
  };
  check_slope(loss, logits, run({K::CrossEntropy, {3, 7}, {logits, targets}, {0.5}})[0]);
  CHECK(loss(Values(21, 4.0)) == Approx(0.5 * 3 * std::log(7.0)));
  // In one part that holds all, and whose last column is padding.
  const Values stats = run({K::CrossEntropyStats, {3, 7}, {logits, targets, {7}}})[0];
  const auto whole = run({K::CrossEntropy, {3, 7}, {logits, targets}, {0.5}});
  const auto parts =
      run({K::CrossEntropyParallel, {3, 7, 1}, {logits, targets, stats, {7}}, {0.5}});
  CHECK(parts[1][0] == Approx(whole[1][0]));
  for (std::size_t i = 0; i < 21; ++i) CHECK(parts[0][i] == Approx(whole[0][i]).margin(1e-15));
}

TEST_CASE("an update of AdamW, of SGD and of Lion by hand", "[backends][reference]") {
  // Step 2 (t = 2), gradient 4 clipped by 0.5.
  const auto adam = run({K::AdamW,
                         {1},
                         {{4}, {0.5}},
                         {0.5, 0.75, 0, 0.1},
                         {{10}, {1}, {3}},
                         false,
                         {.step = 1, .lr = 0.2}});
  CHECK(adam[1][0] == 1.5);   // 0.5 × 1 + 0.5 × 2
  CHECK(adam[2][0] == 3.25);  // 0.75 × 3 + 0.25 × 4
  const double m = 1.5 / (1 - 0.25), v = 3.25 / (1 - 0.5625);
  CHECK(adam[0][0] == Approx(10 - 0.2 * 0.1 * 10 - 0.2 * m / std::sqrt(v)));
  const auto sgd =
      run({K::Sgd, {1}, {{4}, {0.5}}, {0.9, 0.1}, {{10}, {1}}, false, {.step = 1, .lr = 0.2}});
  CHECK(sgd[1][0] == Approx(0.9 * 1 + 2 + 0.1 * 10));
  CHECK(sgd[0][0] == Approx(10 - 0.2 * 3.9));
  // The mix 0.9 × -3 + 0.1 × 2 is negative, so that the weight grows by the learning rate.
  const auto lion = [](double gradient) {
    return run({K::Lion,
                {1},
                {{gradient}, {0.5}},
                {0.9, 0.99, 0.1},
                {{10}, {-3}},
                false,
                {.step = 1, .lr = 0.2}});
  };
  CHECK(lion(4)[0][0] == Approx(10 - 0.2 * (-1 + 0.1 * 10)));
  CHECK(lion(4)[1][0] == Approx(0.99 * -3 + 0.01 * 2));
  CHECK(lion(0)[1][0] == Approx(0.99 * -3));
  CHECK(run({K::Lion, {1}, {{0}, {}}, {0.9, 0.99, 0}, {{10}, {0}}, false, {.lr = 0.2}})[0][0] ==
        10);
  CHECK(run({K::NormSquared, {5, 2}, {{1, 2, 3, 4, 5}}})[0] == Values{14, 41});
  const auto clip = run({K::ClipCoefficient, {2}, {{9, 16}}, {1}});
  CHECK(clip[1][0] == 5);
  CHECK(clip[0][0] == Approx(0.2));
  CHECK(run({K::ClipCoefficient, {2}, {{9, 16}}, {0}})[0][0] == 1);
}

TEST_CASE("the parts of an update of Muon by hand", "[backends][reference]") {
  // The gradient 4 is clipped by 0.5: m = 0.5 × 3 + 2, and the direction looks once more ahead.
  const auto ahead = run({K::Momentum, {1}, {{4}, {0.5}}, {0.5, 1}, {{3}, {9}}});
  CHECK(ahead[0][0] == 3.5);
  CHECK(ahead[1][0] == 2 + 0.5 * 3.5);
  CHECK(run({K::Momentum, {1}, {{4}, {0.5}}, {0.5, 0}, {{3}, {9}}})[1][0] == 3.5);
  const auto skipped = run({K::Momentum, {1}, {{4}, {-1}}, {0.5, 1}, {{3}, {9}}});
  CHECK(skipped[0][0] == 3);
  CHECK(skipped[1][0] == 0);
  CHECK(run({K::Normalize, {2}, {{3, 4}, {25}}, {0}})[0] == Values{0.6, 0.8});
  // w - lr × factor × (d + decay w)
  const auto moved = run({K::Muon, {1}, {{2}}, {0.5, 0.1}, {{10}}, false, {.step = 1, .lr = 0.2}});
  CHECK(moved[0][0] == Approx(10 - 0.2 * 0.5 * (2 + 0.1 * 10)));
}

TEST_CASE("codes of four bits, and the sums of what they stand for, by hand",
          "[backends][reference]") {
  // One block of four values, of which the largest is 7 × 0.5: codes 7, -2, 1 and 0.
  const auto coded = run({K::ToCodes, {4, 1, 1, 4, 4, 1}, {{3.5, -1, 0.6, 0.25}}});
  CHECK(coded[0] == Values{0, 0, 0, 63, 0xe7, 0x01, 0, 0});  // 0.5F has the bytes 0, 0, 0, 63
  CHECK(run({K::FromCodes, {4, 1, 4, 4, 1, 1}, {coded[0]}})[0] == Values{3.5, -1, 0.5, 0});
  Values twice = coded[0];
  twice.insert(twice.end(), coded[0].begin(), coded[0].end());
  CHECK(run({K::FromCodes, {4, 2, 4, 4, 1, 2}, {twice}})[0] == Values{7, -2, 1, 0});
}

TEST_CASE("a basis by hand: columns of length 1, each without those before it",
          "[backends][reference]") {
  const auto basis = run({K::Orthonormalize, {2, 2}, {}, {1e-9, 0}, {{3, 1, 4, 0}}})[0];
  CHECK(basis[0] == Approx(0.6));
  CHECK(basis[2] == Approx(0.8));
  CHECK(basis[1] == Approx(0.8));
  CHECK(basis[3] == Approx(-0.6));
  // The second column is twice the first: nothing is left of it.
  CHECK(run({K::Orthonormalize, {2, 2}, {}, {1e-9, 0}, {{3, 6, 4, 8}}})[0][3] == 0);
  const auto filled = run({K::Orthonormalize, {2, 2}, {}, {1e-9, 1}, {{3, 6, 4, 8}}})[0];
  CHECK(filled[0] * filled[1] + filled[2] * filled[3] == Approx(0).margin(1e-12));
  CHECK(filled[1] * filled[1] + filled[3] * filled[3] == Approx(1));
}

TEST_CASE("the parts of an update of Adafactor by hand", "[backends][reference]") {
  // One matrix of 2 x 3 from element 1 of a unit on, of which member 1 has elements 4 to 7: the
  // second row, and something else. The gradient is multiplied by 0.5.
  const Values g = {2, 4, 6, 100}, w = {1, 2, 2, 100};
  const auto sums = run({K::FactorSums, {4, 1, 1, 2, 6, 0, 2}, {g, {0.5}, w, {1}}, {1.0 / 6}});
  CHECK(sums[0] == Values{0, 14});
  CHECK(sums[1] == Values{1, 4, 9});
  CHECK(sums[2][0] == Approx(9.0 / 6));
  // Step 4: the moments keep 1 - 4^-0.5.
  const auto moments =
      run({K::FactorMoments, {2}, {{6, 9}}, {1.0 / 3, -0.5, 0.25}, {{1, 2}}, false, {.step = 3}});
  CHECK(moments[0] == Values{0.5 * 1 + 0.5 * 2.25, 0.5 * 2 + 0.5 * 3.25});
  // Moments of rows 4 and 8, of columns 2, 6 and 10, whose mean is 6.
  const Values row = {4, 8}, col = {2, 6, 10};
  const Values u = {1 / std::sqrt(8.0 * 2 / 6), 2 / std::sqrt(8.0), 3 / std::sqrt(8.0 * 10 / 6)};
  const double squares = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
  CHECK(run({K::FactoredSquares,
             {4, 1, 1, 2, 6, 0, 2},
             {g, {0.5}, row, col, {1}},
             {1.0 / 6}})[0][0] == Approx(squares / 6));
  // The root of scale 4 is 2, and that of square 9 is 1.5 times what it may be.
  const auto moved = run({K::Adafactor,
                          {4, 1, 1, 2, 6, 0, 2, 1},
                          {g, {0.5}, row, col, {4}, {9}, {1}},
                          {0.001, 2, 0.25, 0.1},
                          {w, {8, 8, 8, 8}},
                          false,
                          {.step = 3, .lr = 0.7}});
  for (std::size_t i = 0; i < 3; ++i) {
    const double a = 0.5 * 2, m = 0.25 * 8 + 0.75 * a * u[i] / 1.5;  // 1 / sqrt(4) is below 0.7
    CHECK(moved[1][i] == Approx(m));
    CHECK(moved[0][i] == Approx(w[i] - m - 0.1 * a * w[i]));
  }
  CHECK(moved[0][3] == 100);
  CHECK(moved[1][3] == 8);
}

TEST_CASE("a replica's term, and the outer step of DiLoCo, by hand", "[backends][reference]") {
  CHECK(run({K::ReplicaTerm, {2}, {{1, 2}, {5, 8}}, {0.25}})[0] == Values{1, 1.5});
  CHECK(run({K::ReplicaTerm, {2}, {{1, 2}, {}}, {0.25}})[0] == Values{0.25, 0.5});
  // m = 0.5 × 3 + 4; Nesterov looks once more ahead.
  const auto ahead = run({K::OuterSgd, {1}, {{4}}, {0.7, 0.5, 1}, {{10}, {3}}});
  CHECK(ahead[1][0] == 5.5);
  CHECK(ahead[0][0] == Approx(10 - 0.7 * (4 + 0.5 * 5.5)));
  const auto plain = run({K::OuterSgd, {1}, {{4}}, {0.7, 0.5, 0}, {{10}, {3}}});
  CHECK(plain[0][0] == Approx(10 - 0.7 * 5.5));
}

TEST_CASE("a router's bias counts where tokens choose, and moves against the load by hand",
          "[backends][reference]") {
  // Both tokens find expert 0 the most probable. A bias of 0.5 puts expert 2 before it, whose gate
  // is its probability all the same.
  const Values logits = {std::log(0.6), std::log(0.1),  std::log(0.3),
                         std::log(0.9), std::log(0.05), std::log(0.05)};
  const auto routed = run({K::RouteForward, {2, 3, 1, 2}, {logits, {0, 0, 0.5}}});
  CHECK(routed[2] == Values{4, 0});
  CHECK(routed[1][0] == Approx(0.3));
  CHECK(routed[1][1] == Approx(0.9));
  // Loads of 3, 1, 2 and 2: the mean is 2.
  const auto moved =
      run({K::RouterBias, {4}, {{3, 1, 2, 2}, {0.5}}, {0.25}, {{1, 1, 1, -1}, {9, 9, 9, 9}}});
  CHECK(moved[0] == Values{0.75, 1.25, 1, -1});
  CHECK(moved[1] == Values{3, 1, 2, 2});
}

TEST_CASE("gradients of convolution, pooling and batch norm are their slopes",
          "[backends][reference]") {
  const std::vector<std::int64_t> conv = {2, 5, 4, 3, 2, 3, 2};
  const Values dy = random(2 * 3 * 2 * 2);
  const Call forward{K::Conv2dForward, conv, {random(2 * 5 * 4 * 3), random(2 * 9 * 3)}};
  check_input(forward, 0, dy, run({K::Conv2dBackwardInput, conv, {dy, forward.in[1]}})[0]);
  check_input(forward, 1, dy, run({K::Conv2dBackwardWeight, conv, {dy, forward.in[0]}})[0]);
  const std::vector<std::int64_t> pool = {2, 5, 4, 2, 3, 2};
  const Call largest{K::MaxPoolForward, pool, {random(2 * 5 * 4 * 2)}};
  check_input(largest, 0, dy, run({K::MaxPoolBackward, pool, {dy, largest.in[0]}})[0]);
  const Call average{K::AveragePoolForward, {4, 5, 6}, {random(4 * 5 * 6)}};
  check_input(average, 0, dy, run({K::AveragePoolBackward, {4, 5, 6}, {dy}})[0]);
  const Values x = random(8 * 3, 2), w = random(3), b = random(3);
  const auto normalized = [&](const Values& at, const Values& weights, const Values& bias) {
    const Values stats = run({K::BatchNormStatistics, {8, 3}, {at}})[0];
    return dot(dy, run({K::BatchNormForward, {8, 3}, {at, weights, bias, stats}, {1e-2}})[0]);
  };
  const Values stats = run({K::BatchNormStatistics, {8, 3}, {x}})[0];
  const Values sums = run({K::BatchNormBackwardSums, {8, 3}, {dy, x, stats}, {1e-2}})[0];
  check_slope([&](const Values& at) { return normalized(at, w, b); }, x,
              run({K::BatchNormBackwardInput, {8, 3}, {dy, x, w, stats, sums}, {1e-2, 8}})[0]);
  const auto weights = run({K::BatchNormBackwardWeight, {3}, {sums}});
  check_slope([&](const Values& at) { return normalized(x, at, b); }, w, weights[0]);
  check_slope([&](const Values& at) { return normalized(x, w, at); }, b, weights[1]);
  // Statistics of two halves, put together, are those of all rows.
  Values each = run({K::BatchNormStatistics, {4, 3}, {{x.begin(), x.begin() + 12}}})[0];
  const Values second = run({K::BatchNormStatistics, {4, 3}, {{x.begin() + 12, x.end()}}})[0];
  each.insert(each.end(), second.begin(), second.end());
  const Values all = run({K::BatchNormCombine, {2, 3}, {each}})[0];
  for (std::size_t i = 0; i < 6; ++i) CHECK(all[i] == Approx(stats[i]).margin(1e-14));
}

TEST_CASE("gradients of experts, routing and combination are their slopes",
          "[backends][reference]") {
  const Call product{K::GroupedGemm,
                     {2, 3, 4, 5, 2, 1},
                     {random(2 * 3 * 4 * 2), random(2 * 5 * 2), random(2 * 5)}};
  const Values dc = random(2 * 3 * 4 * 5);
  const auto weights = run({K::GroupedGemmWeight, {2, 3, 4, 5, 2}, {dc, product.in[0]}});
  check_input(product, 1, dc, weights[0]);
  check_input(product, 2, dc, weights[1]);
  // Experts 0 to 2 with two places each; token 2 finds expert 0 full with its first choice.
  const Values logits = {3, 2, 1, 3, 1, 2, 4, 0, 2, 1, 2, 5};
  const auto routed = run({K::RouteForward, {4, 3, 2, 2}, {logits}});
  CHECK(routed[2] == Values{0, 2, 1, 5, -1, -3, 4, 3});
  CHECK(routed[3] == Values{0, 1, 0, 3, 3, 1});
  const Values dgates = random(8);
  for (const std::int64_t sigmoid : {0, 1}) {
    const std::vector<std::int64_t> routing = {4, 3, 2, 2, sigmoid};
    const auto value = [&](const Values& at) {
      const auto out = run({K::RouteForward, routing, {at}});
      double balance = 0;  // 3 of the 8 choices are of expert 0, 2 of expert 1, 3 of expert 2
      for (std::size_t i = 0; i < 12; ++i) {
        const std::size_t row = i / 3 * 3;
        const double sum = out[0][row] + out[0][row + 1] + out[0][row + 2];
        balance += (i % 3 == 1 ? 2 : 3) / 8.0 * out[0][i] / sum;
      }
      return dot(dgates, out[1]) + 0.7 * 3 * balance;
    };
    const auto made = run({K::RouteForward, routing, {logits}});
    check_slope(value, logits,
                run({K::RouteBackward, routing, {dgates, made[0], made[2]}, {0.7}})[0]);
    // The same in two kernels, the second for tokens that other ranks balance with.
    const auto apart = run({K::RouteBackward, routing, {dgates, made[0], made[2]}, {0}})[0];
    const auto load = run({K::RouteLoad, routing, {made[2]}})[0];
    CHECK(load == Values{3, 2, 3});
    check_slope(value, logits,
                run({K::RouteBalance, {4, 3, sigmoid}, {apart, made[0], load}, {0.7}})[0]);
  }
  const std::vector<std::int64_t> dims = {4, 5, 2, 6};
  const Call combine{K::CombineForward, dims, {random(6 * 5), routed[1], routed[2], random(4 * 5)}};
  const Values dy = random(4 * 5);
  const auto d = run({K::CombineBackward, dims, {dy, combine.in[0], combine.in[1], combine.in[2]}});
  check_input(combine, 0, dy, d[0]);
  check_input(combine, 1, dy, d[1]);
}

TEST_CASE("regrouping takes part p of every section, and back", "[backends][reference]") {
  // A row: one element skipped, two parts of 2, two parts of 1, two parts of 1.
  const Values row = {9, 1, 2, 3, 4, 5, 6, 7, 8};
  const Values parts = run({K::Regroup, {1, 2, 2, 1, 1, 0, 1}, {row}})[0];
  CHECK(parts == Values{1, 2, 5, 7, 3, 4, 6, 8});
  CHECK(run({K::Regroup, {1, 2, 2, 1, 1, 1, 1}, {parts}, {}, {Values(9, 9)}})[0] == row);
}

TEST_CASE("dropout keeps what its row's key says, divided by the share that is kept",
          "[backends][reference]") {
  const Values x = {1, 2, 3, 4, 5, 6}, resid = {10, 20, 30, 40, 50, 60}, bias = {0.5, 0.25, 0.125};
  const StepContext context{.layer = 3};
  const std::int32_t key = 12345;
  const Values keys = {double{key}, double{kNothingDropped}};
  const Values y =
      run({K::Dropout, {2, 3}, {x, keys, resid, bias}, {0.5, 2}, {}, false, context})[0];
  const DropoutRow row(key, 3, 2);
  for (std::uint32_t c = 0; c < 3; ++c) {
    const bool dropped = row.bits(c) < dropped_below(0.5);
    CHECK(y[c] == resid[c] + (dropped ? 0 : 2 * (x[c] + bias[c])));
    CHECK(y[3 + c] == resid[3 + c] + x[3 + c] + bias[c]);
  }
  // Alone, and in another layer.
  const Values ones(64, 1);
  const Values here =
      run({K::Dropout, {1, 64}, {ones, {7}, {}, {}}, {0.5, 2}, {}, false, context})[0];
  const Values there =
      run({K::Dropout, {1, 64}, {ones, {7}, {}, {}}, {0.5, 2}, {}, false, {.layer = 4}})[0];
  CHECK(here != there);
  for (const double value : here) CHECK((value == 0 || value == 2));
}

TEST_CASE("joined columns are those of the one tensor, then of the other",
          "[backends][reference]") {
  const Values x = {1, 2, 3, 4}, z = {5, 6}, y = {1, 2, 5, 3, 4, 6};
  CHECK(run({K::JoinColumns, {2, 2, 1}, {x, z}})[0] == y);
  const auto parted = run({K::PartColumns, {2, 2, 1}, {y}});
  CHECK(parted[0] == x);
  CHECK(parted[1] == z);
}

TEST_CASE("attention that is not causal sees all keys, and its gradients are slopes",
          "[backends][reference]") {
  // By hand, of two tokens: the first sees the second as well.
  const Values qkv = {0.3, 0.7, 5, -1, 2, 9};
  const double second = 1 / (1 + std::exp(0.3 * 0.7 - 0.3 * 2));
  CHECK(run({K::AttentionForward, {1, 2, 1, 1, 1, 0, 0, 1}, {qkv}})[0][0] ==
        Approx(5 * (1 - second) + 9 * second).epsilon(1e-14));
  const Values dy = random(2 * 6 * 4 * 3);
  const Call own{K::AttentionForward, {2, 6, 4, 2, 3, 0, 0, 1}, {random(2 * 6 * 8 * 3, 2)}};
  const auto kept = run(own);
  check_input(own, 0, dy,
              run({K::AttentionBackward, own.dims, {own.in[0], kept[0], kept[1], dy}})[0]);
  const Call all{K::AttentionForward,
                 {2, 6, 4, 2, 3, 2, 0, 1},
                 {random(2 * 6 * 8 * 3, 2), random(2 * 2 * 6 * 4 * 3, 2), {3, 6, 0, 9, 3, 6}}};
  const auto saved = run(all);
  const auto back = run(
      {K::AttentionBackward, all.dims, {all.in[0], saved[0], saved[1], dy, all.in[1], all.in[2]}});
  check_input(all, 0, dy, back[0]);
  check_input(all, 1, dy, back[1]);
}

TEST_CASE("windows that lie side by side have no padding, and their gradients are slopes",
          "[backends][reference]") {
  // One image of 4 x 2, windows of 2 x 2: each result is the sum of one half of the image.
  CHECK(
      run({K::Conv2dForward, {1, 4, 2, 1, 1, 2, 2}, {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 1}}})[0] ==
      Values{10, 26});
  const std::vector<std::int64_t> conv = {2, 8, 4, 3, 2, 4, 4};
  const Values dy = random(2 * 2 * 1 * 2);
  const Call forward{K::Conv2dForward, conv, {random(2 * 8 * 4 * 3), random(2 * 16 * 3)}};
  check_input(forward, 0, dy, run({K::Conv2dBackwardInput, conv, {dy, forward.in[1]}})[0]);
  check_input(forward, 1, dy, run({K::Conv2dBackwardWeight, conv, {dy, forward.in[0]}})[0]);
}

TEST_CASE("a sum of one operand is a copy, with the same bias for every row",
          "[backends][reference]") {
  CHECK(run({K::Add, {2, 2}, {{1, 2, 3, 4}, {}, {10, 20}}})[0] == Values{11, 22, 13, 24});
  CHECK(run({K::Add, {2, 2}, {{1, 2, 3, 4}}})[0] == Values{1, 2, 3, 4});
}

TEST_CASE("latent attention's keys share what is rotated, and values stand behind zeros",
          "[backends][reference]") {
  // A row of two heads: 2 + 1 elements of queries and keys, 1 of values.
  const Values q = {1, 2, 3, 4, 5, 6}, kv = {7, 8, 9, 10, 11, 12}, shared = {13};
  const Values qkv = {1, 2, 3, 4, 5, 6, 7, 8, 13, 10, 11, 13, 0, 0, 9, 0, 0, 12};
  CHECK(run({K::JoinLatent, {1, 2, 2, 1, 1}, {q, kv, shared}})[0] == qkv);
  const auto parts = run({K::PartLatent, {1, 2, 2, 1, 1}, {qkv}});
  CHECK(parts[0] == q);
  CHECK(parts[1] == kv);
  CHECK(parts[2] == Values{26});  // of both heads
  const Values dy = random(5 * 3 * 3 * 6);
  const Call join{K::JoinLatent, {5, 3, 4, 2, 3}, {random(5 * 18), random(5 * 21), random(5 * 2)}};
  const auto d = run({K::PartLatent, {5, 3, 4, 2, 3}, {dy}});
  for (std::size_t i = 0; i < 3; ++i) check_input(join, i, dy, d[i]);
}

TEST_CASE("attention drops the probabilities that its queries' keys and its heads' numbers say",
          "[backends][reference]") {
  // Three tokens, one head of one element, which is the sixth of the model: values are 1, 10, 100,
  // and all scores are equal, so that the last query has probabilities of a third.
  const StepContext context{.layer = 2};
  const std::int32_t key = 4321;
  const Values qkv = {0, 0, 1, 0, 0, 10, 0, 0, 100};
  const auto with = [&](std::int32_t last) {
    const Values dropout = {5, double{kNothingDropped}, double{kNothingDropped},
                            static_cast<double>(last)};
    return run({K::AttentionForward,
                {1, 3, 1, 1, 1},
                {qkv, {}, {}, {}, dropout},
                {0.5},
                {},
                false,
                context});
  };
  double expected = 0;
  const auto row = DropoutRow::of_query(key, 2, 5);
  for (std::uint32_t j = 0; j < 3; ++j) {
    if (row.bits(j) >= dropped_below(0.5)) expected += 2 * qkv[3 * j + 2] / 3;
  }
  CHECK(with(key)[0][2] == Approx(expected).epsilon(1e-14));
  CHECK(with(key)[0][1] == Approx(5.5).epsilon(1e-14));
  CHECK(with(kNothingDropped)[0][2] == Approx(37).epsilon(1e-14));
  CHECK(with(key)[1] == with(kNothingDropped)[1]);  // the softmax is that of all scores
  // Gradients, with the keys of all ranks as well, and in turns: what is dropped stays the same.
  Values dropout = {3, 0, 7, 1};
  for (int row_of = 0; row_of < 12; ++row_of) {
    dropout.push_back(row_of % 5 == 4 ? kNothingDropped : dropout_key(1, row_of / 6, row_of % 6));
  }
  const Values dy = random(2 * 6 * 4 * 3), qkv_own = random(2 * 6 * 8 * 3, 2);
  const Values keys = random(2 * 2 * 6 * 4 * 3, 2), starts = {3, 6, 0, 9, 3, 6};
  for (const Values& scalars : {Values{0.4}, Values{0.4, 0.9, 1.5}}) {
    const Call own{K::AttentionForward,
                   {2, 6, 4, 2, 3},
                   {qkv_own, {}, {}, {}, dropout},
                   scalars,
                   {},
                   false,
                   context};
    const auto kept = run(own);
    check_input(own, 0, dy,
                run({K::AttentionBackward,
                     own.dims,
                     {qkv_own, kept[0], kept[1], dy, {}, {}, {}, dropout},
                     scalars,
                     {},
                     false,
                     context})[0]);
    const Call all{K::AttentionForward,
                   {2, 6, 4, 2, 3, 2},
                   {qkv_own, keys, starts, {}, dropout},
                   scalars,
                   {},
                   false,
                   context};
    const auto saved = run(all);
    const auto back = run({K::AttentionBackward,
                           all.dims,
                           {qkv_own, saved[0], saved[1], dy, keys, starts, {}, dropout},
                           scalars,
                           {},
                           false,
                           context});
    check_input(all, 0, dy, back[0]);
    check_input(all, 1, dy, back[1]);
  }
}

}  // namespace lockstep::reference
