#include <functional>

#include "core/base/bfloat16.hpp"
#include "core/base/dropout.hpp"
#include "tests/backends/cpu/kernels/kernel_case.hpp"

namespace lockstep::cpu::test {
namespace {

struct Shape {
  std::size_t batch, seq, heads, kv_heads, dim;
  std::size_t row() const { return (heads + 2 * kv_heads) * dim; }
  std::size_t qkv() const { return batch * seq * row(); }
  std::size_t out() const { return batch * seq * heads * dim; }
  std::size_t lse() const { return batch * heads * seq; }
  std::vector<std::int64_t> dims() const {
    return {static_cast<std::int64_t>(batch), static_cast<std::int64_t>(seq),
            static_cast<std::int64_t>(heads), static_cast<std::int64_t>(kv_heads),
            static_cast<std::int64_t>(dim)};
  }
};

/// What the probability of head h of a query i for a key j of a sequence b is multiplied by.
using Factor = std::function<double(std::size_t b, std::size_t h, std::size_t i, std::size_t j)>;
double nothing_dropped(std::size_t, std::size_t, std::size_t, std::size_t) { return 1; }

/// Scalars of attention: what scores are multiplied by, and their cap; 0: the usual scale, no cap.
struct Scoring {
  double scale = 0, cap = 0;
  void add(KernelCase& c) const {
    c.scalars.resize(1);
    c.scalars.insert(c.scalars.end(), {scale, cap});
  }
};

/// Attention by its definition: softmax over all keys up to the query, one score at a time, in
/// float64. Returns o, lse and, if the gradient of the output is given, dqkv.
std::vector<Values> reference(const Shape& s, const Values& qkv, const Values& d_out,
                              const Factor& factor = nothing_dropped, const Scoring& scoring = {}) {
  Values o(s.out(), 0), lse(s.lse(), 0), dqkv(s.qkv(), 0);
  const double cap = scoring.cap;
  const double scale =
      scoring.scale > 0 ? scoring.scale : 1 / std::sqrt(static_cast<double>(s.dim));
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) {
      const std::size_t kv = h / (s.heads / s.kv_heads);
      const auto at = [&](std::size_t head, std::size_t t) {
        return (b * s.seq + t) * s.row() + head * s.dim;
      };
      for (std::size_t i = 0; i < s.seq; ++i) {
        const std::size_t q = at(h, i), out = ((b * s.seq + i) * s.heads + h) * s.dim;
        Values p(i + 1), dp(i + 1, 0), slope(i + 1, 1);
        double sum = 0, delta = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < s.dim; ++d)
            score += qkv[q + d] * qkv[at(s.heads + kv, j) + d];
          score *= scale;
          if (cap > 0) {
            const double tangent = std::tanh(score / cap);
            score = cap * tangent;
            slope[j] = 1 - tangent * tangent;
          }
          p[j] = std::exp(score);
          sum += p[j];
        }
        for (std::size_t j = 0; j <= i; ++j) {
          p[j] /= sum;
          const std::size_t v = at(s.heads + s.kv_heads + kv, j);
          const double f = factor(b, h, i, j);
          for (std::size_t d = 0; d < s.dim; ++d) {
            o[out + d] += f * p[j] * qkv[v + d];
            dp[j] += f * d_out[out + d] * qkv[v + d];
            dqkv[v + d] += f * p[j] * d_out[out + d];
          }
          delta += p[j] * dp[j];
        }
        for (std::size_t j = 0; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - delta) * slope[j] * scale;
          const std::size_t k = at(s.heads + kv, j);
          for (std::size_t d = 0; d < s.dim; ++d) {
            dqkv[q + d] += ds * qkv[k + d];
            dqkv[k + d] += ds * qkv[q + d];
          }
        }
        lse[(b * s.heads + h) * s.seq + i] = std::log(sum);
      }
    }
  }
  return {o, lse, dqkv};
}

KernelCase forward_case(const Shape& s, Values qkv) {
  KernelCase c{KernelKind::AttentionForward};
  c.dims = s.dims();
  c.in = {{std::move(qkv)}};
  c.out = {{s.out()}, {s.lse()}};
  return c;
}

KernelCase backward_case(const Shape& s, const Values& qkv, const Values& o, const Values& lse,
                         const Values& d_out) {
  KernelCase c{KernelKind::AttentionBackward};
  c.dims = s.dims();
  c.in = {{qkv}, {o}, {lse}, {d_out}};
  c.out = {{s.qkv()}};
  return c;
}

const Shape kShapes[] = {{1, 1, 1, 1, 1},   {2, 3, 2, 2, 5},   {1, 17, 3, 1, 8},
                         {2, 64, 2, 1, 16}, {1, 65, 4, 2, 33}, {1, 130, 2, 2, 64},
                         {3, 113, 1, 1, 7}, {1, 260, 2, 1, 12}};
/// More keys than are packed at a time, and more queries than read them.
const Shape kLongShapes[] = {{1, 1300, 1, 1, 80}, {1, 2100, 1, 1, 4}};

TEST_CASE("attention forward equals the softmax over earlier keys", "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.dim);
    const Values qkv = random_values(s.qkv(), 11, 2.0);
    const auto expected = reference(s, qkv, Values(s.out(), 0));
    check_case(forward_case(s, qkv), {expected[0], expected[1]}, 2e-6, 1e-14);
  }
}

TEST_CASE("attention of more keys than are packed at a time equals its definition",
          "[backends][cpu]") {
  for (const Shape& s : kLongShapes) {
    INFO(s.seq << " " << s.dim);
    const Values qkv = random_values(s.qkv(), 13, 2.0), d_out = random_values(s.out(), 14);
    const auto expected = reference(s, qkv, d_out);
    check_case(forward_case(s, qkv), {expected[0], expected[1]}, 2e-6, 1e-14);
    check_case(backward_case(s, qkv, expected[0], expected[1], d_out), {expected[2]}, 4e-6, 2e-14);
  }
}

Values rounded(Values values) {
  for (double& x : values) x = static_cast<float>(bfloat16(static_cast<float>(x)));
  return values;
}

TEST_CASE("attention in bfloat16 is within its roundings of the definition", "[backends][cpu]") {
  // On tiles, probabilities and gradients of scores are rounded to 8 bits before products, by
  // 2^-9 of each at most; results are rounded once more. Relative to the largest result.
  constexpr double kForward = 5e-3, kBackward = 8e-3;
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.push_back(kLongShapes[0]);
  const auto check = [&](const Shape& s, const Scoring& scoring) {
    INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.dim
                 << ", scale " << scoring.scale << ", cap " << scoring.cap);
    const Values qkv = rounded(random_values(s.qkv(), 11, 2.0));
    const Values d_out = rounded(random_values(s.out(), 12));
    const auto expected = reference(s, qkv, d_out, nothing_dropped, scoring);
    KernelCase forward = forward_case(s, qkv);
    KernelCase backward = backward_case(s, qkv, expected[0], expected[1], d_out);
    forward.dtype = backward.dtype = DType::BF16;
    scoring.add(forward);
    scoring.add(backward);
    const auto found = run_everywhere(forward), gradients = run_everywhere(backward);
    for (std::size_t t = 0; t < found.size(); ++t) {
      INFO(kernel_tables().tables[t].isa);
      CHECK(relative_error(found[t][0], expected[0]) <= kForward);
      CHECK(relative_error(found[t][1], expected[1]) <= 2e-6);  // statistics are not rounded
      CHECK(relative_error(gradients[t][0], expected[2]) <= kBackward);
    }
  };
  for (const Shape& s : shapes) {
    for (const Scoring& scoring : {Scoring{}, Scoring{0.3, 0}, Scoring{0, 1.5}, Scoring{0.2, 50}}) {
      check(s, scoring);
    }
  }
}

TEST_CASE("attention backward equals the derivative of the softmax", "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.dim);
    const Values qkv = random_values(s.qkv(), 11, 2.0), d_out = random_values(s.out(), 12);
    const auto expected = reference(s, qkv, d_out);
    check_case(backward_case(s, qkv, expected[0], expected[1], d_out), {expected[2]}, 4e-6, 2e-14);
  }
}

TEST_CASE("attention's gradient equals the finite difference of its forward", "[backends][cpu]") {
  const Shape s{2, 70, 4, 2, 6};
  const Values qkv = random_values(s.qkv(), 21), g = random_values(s.out(), 22);
  const KernelCase forward = forward_case(s, qkv);
  const auto saved = run(forward);
  const Values gradient = run(backward_case(s, qkv, saved[0], saved[1], g))[0];
  for (unsigned seed = 0; seed < 3; ++seed) {
    const Values direction = random_values(s.qkv(), 30 + seed);
    CHECK(slope(forward, 0, direction, g) == Approx(dot(gradient, direction)).epsilon(1e-6));
  }
}

TEST_CASE("attention survives scores far beyond the range of exp", "[backends][cpu]") {
  const Shape s{1, 100, 1, 1, 4};
  Values qkv = random_values(s.qkv(), 5, 60.0);  // scores up to 7200: exp overflows float32 and 64
  const auto results = run_everywhere(forward_case(s, qkv));
  for (const auto& outputs : results) {
    for (const double x : outputs[0]) CHECK(std::abs(x) <= 60.0);
  }
}

TEST_CASE("a position's attention does not depend on later positions", "[backends][cpu]") {
  const Shape s{1, 150, 2, 1, 16};
  for (const DType dtype : {DType::F32, DType::F64}) {
    Values qkv = random_values(s.qkv(), 5);
    KernelCase c = forward_case(s, qkv);
    c.dtype = dtype;
    const Values before = run(c)[0];
    for (std::size_t i = 100 * s.row(); i < s.qkv(); ++i) c.in[0].values[i] = 3;
    const Values after = run(c)[0];
    const auto kept = static_cast<std::ptrdiff_t>(100 * s.heads * s.dim);
    CHECK(bit_equal(Values(before.begin(), before.begin() + kept),
                    Values(after.begin(), after.begin() + kept)));
  }
}

TEST_CASE("attention in documents equals attention to each of them alone", "[backends][cpu]") {
  for (const Scoring& scoring : {Scoring{}, Scoring{0.2, 0}, Scoring{0.5, 1.5}}) {
    for (const auto& lengths : std::vector<std::vector<std::size_t>>{
             {1}, {3, 1, 5}, {70, 1, 1, 64, 40}, {30, 200, 30}, {128, 64, 65}, {1, 1, 1, 150}}) {
      Shape whole{1, 0, 4, 2, 9};
      for (const std::size_t length : lengths) whole.seq += length;
      INFO(whole.seq << " tokens in " << lengths.size() << " documents, scale " << scoring.scale
                     << ", cap " << scoring.cap);
      const Values qkv = random_values(whole.qkv(), 21, 2.0),
                   d_out = random_values(whole.out(), 22);
      Values o, dqkv, starts, lse(whole.lse());
      std::size_t begin = 0;
      for (const std::size_t length : lengths) {
        Shape alone = whole;
        alone.seq = length;
        const auto rows = [&](const Values& of, std::size_t row) {
          const auto from = of.begin() + static_cast<std::ptrdiff_t>(begin * row);
          return Values(from, from + static_cast<std::ptrdiff_t>(length * row));
        };
        const auto expected =
            reference(alone, rows(qkv, whole.row()), rows(d_out, whole.heads * whole.dim),
                      nothing_dropped, scoring);
        o.insert(o.end(), expected[0].begin(), expected[0].end());
        dqkv.insert(dqkv.end(), expected[2].begin(), expected[2].end());
        for (std::size_t i = 0; i < whole.heads * length; ++i) {
          lse[i / length * whole.seq + begin + i % length] = expected[1][i];
        }
        starts.insert(starts.end(), length, static_cast<double>(begin));
        begin += length;
      }
      KernelCase forward = forward_case(whole, qkv);
      forward.dims.insert(forward.dims.end(), {0, 1});
      forward.in = {{qkv}, {}, {}, {starts}};
      scoring.add(forward);
      check_case(forward, {o, lse}, 2e-6, 1e-14);
      KernelCase backward = backward_case(whole, qkv, o, lse, d_out);
      backward.dims = forward.dims;
      backward.in.insert(backward.in.end(), {{}, {}, {starts}});
      scoring.add(backward);
      check_case(backward, {dqkv}, 4e-6, 2e-14);
    }
  }
}

/// A whole sequence's values on `parts` ranks, of which each holds one piece of the front half and
/// one of the back half.
struct Slices {
  Shape whole;
  std::size_t parts;
  std::size_t piece() const { return whole.seq / (2 * parts); }
  Shape own() const {
    Shape s = whole;
    s.seq = 2 * piece();
    return s;
  }
  std::size_t position(std::size_t rank, std::size_t i) const {
    return i < piece() ? rank * piece() + i : (2 * parts - 1 - rank) * piece() + i - piece();
  }
  /// Columns [begin, end) of the rows that a rank has of a tensor [batch, seq, row].
  Values of(std::size_t rank, const Values& x, std::size_t row, std::size_t begin,
            std::size_t end) const {
    Values out;
    for (std::size_t b = 0; b < whole.batch; ++b) {
      for (std::size_t i = 0; i < 2 * piece(); ++i) {
        const std::size_t at = (b * whole.seq + position(rank, i)) * row;
        out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(at + begin),
                   x.begin() + static_cast<std::ptrdiff_t>(at + end));
      }
    }
    return out;
  }
  Values starts(std::size_t rank) const {
    Values out = {static_cast<double>(position(rank, 0)),
                  static_cast<double>(position(rank, piece()))};
    for (std::size_t part = 0; part < parts; ++part) {
      out.push_back(static_cast<double>(position(part, 0)));
      out.push_back(static_cast<double>(position(part, piece())));
    }
    return out;
  }
  /// Keys and values of all ranks, one after the other.
  Values keys(const Values& qkv) const {
    Values out;
    for (std::size_t part = 0; part < parts; ++part) {
      const Values own = of(part, qkv, whole.row(), whole.heads * whole.dim, whole.row());
      out.insert(out.end(), own.begin(), own.end());
    }
    return out;
  }
  /// The rows of a rank's queries; the other columns hold `rest`.
  Values queries(std::size_t rank, Values qkv, double rest) const {
    for (std::size_t i = 0; i < qkv.size(); ++i) {
      if (i % whole.row() >= whole.heads * whole.dim) qkv[i] = rest;
    }
    return of(rank, qkv, whole.row(), 0, whole.row());
  }
  std::vector<std::int64_t> dims() const {
    std::vector<std::int64_t> d = own().dims();
    d.push_back(static_cast<std::int64_t>(parts));
    return d;
  }
};

TEST_CASE("attention of a rank's tokens to gathered keys equals that of whole sequences",
          "[backends][cpu]") {
  for (const Scoring& scoring : {Scoring{}, Scoring{0.2, 0}, Scoring{0.5, 1.5}}) {
    for (const Slices& s : {Slices{{1, 4, 1, 1, 1}, 2}, Slices{{2, 12, 2, 1, 5}, 3},
                            Slices{{1, 260, 2, 2, 8}, 1}, Slices{{1, 160, 4, 2, 33}, 2},
                            Slices{{1, 620, 2, 1, 16}, 2}, Slices{{2, 400, 1, 1, 7}, 5}}) {
      const Shape& w = s.whole;
      const std::size_t width = w.heads * w.dim;
      const Values qkv = random_values(w.qkv(), 11, 2.0), d_out = random_values(w.out(), 12);
      for (std::size_t rank = 0; rank < s.parts; ++rank) {
        INFO(w.seq << " tokens, rank " << rank << " of " << s.parts << ", scale " << scoring.scale
                   << ", cap " << scoring.cap);
        // The gradient of these tokens' results alone, by the definition.
        Values own_only(w.out(), 0);
        for (std::size_t b = 0; b < w.batch; ++b) {
          for (std::size_t i = 0; i < s.own().seq; ++i) {
            const std::size_t at = (b * w.seq + s.position(rank, i)) * width;
            for (std::size_t c = at; c < at + width; ++c) own_only[c] = d_out[c];
          }
        }
        const auto expected = reference(w, qkv, own_only, nothing_dropped, scoring);
        const Values o = s.of(rank, expected[0], width, 0, width);
        Values lse;
        for (std::size_t bh = 0; bh < w.batch * w.heads; ++bh) {
          for (std::size_t i = 0; i < s.own().seq; ++i) {
            lse.push_back(expected[1][bh * w.seq + s.position(rank, i)]);
          }
        }
        KernelCase forward{KernelKind::AttentionForward};
        forward.dims = s.dims();
        forward.in = {{s.queries(rank, qkv, 99.0)}, {s.keys(qkv)}, {s.starts(rank)}};
        forward.out = {{s.own().out()}, {s.own().lse()}};
        scoring.add(forward);
        check_case(forward, {o, lse}, 2e-6, 1e-14);
        KernelCase backward{KernelKind::AttentionBackward};
        backward.dims = s.dims();
        backward.in = {forward.in[0], {o},          {lse}, {s.of(rank, d_out, width, 0, width)},
                       forward.in[1], forward.in[2]};
        backward.out = {{s.own().qkv(), -1, Values(s.own().qkv(), 0)},
                        {forward.in[1].values.size()}};
        scoring.add(backward);
        check_case(backward, {s.queries(rank, expected[2], 0), s.keys(expected[2])}, 4e-6, 2e-14);
      }
    }
  }
}

/// The dropout of a share of the probabilities in layer 3: of all queries but every fifth, in heads
/// that are counted backwards from 40.
struct Dropout {
  std::size_t heads;
  double share = 1.0 / 3;
  std::int32_t key(std::size_t b, std::size_t i) const {
    return i % 5 == 4 ? kNothingDropped
                      : dropout_key(9, static_cast<std::int64_t>(b), static_cast<std::int64_t>(i));
  }
  Factor factor() const {
    return [*this](std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
      if (key(b, i) < 0) return 1.0;
      return bits(b, h, i, j) < dropped_below(share) ? 0 : 1 / (1 - share);
    };
  }
  std::uint32_t bits(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    const auto row = DropoutRow::of_query(key(b, i), 3, 40 - static_cast<int>(h));
    return row.bits(static_cast<std::uint32_t>(j));
  }
  /// The operand, given the positions of the queries.
  Values operand(std::size_t batch, const std::vector<std::size_t>& positions) const {
    Values values;
    for (std::size_t h = 0; h < heads; ++h) values.push_back(40 - static_cast<double>(h));
    for (std::size_t b = 0; b < batch; ++b) {
      for (const std::size_t i : positions) values.push_back(key(b, i));
    }
    return values;
  }
  void add(KernelCase& c, const Values& operand) const {
    c.in.resize(c.kind == KernelKind::AttentionForward ? 4 : 7);
    c.in.push_back({operand});
    if (c.scalars.empty()) c.scalars.resize(1);
    c.scalars[0] = share;
    c.context.layer = 3;
  }
};

std::vector<std::size_t> up_to(std::size_t n) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

/// Checks both passes with dropout against their definition.
void check_dropping(const Shape& s, const Dropout& dropout, const Values& qkv, const Values& d_out,
                    const Scoring& scoring = {}) {
  const auto expected = reference(s, qkv, d_out, dropout.factor(), scoring);
  const Values operand = dropout.operand(s.batch, up_to(s.seq));
  KernelCase forward = forward_case(s, qkv);
  dropout.add(forward, operand);
  scoring.add(forward);
  check_case(forward, {expected[0], expected[1]}, 2e-6, 1e-14);
  KernelCase backward = backward_case(s, qkv, expected[0], expected[1], d_out);
  dropout.add(backward, operand);
  scoring.add(backward);
  check_case(backward, {expected[2]}, 4e-6, 2e-14);
}

TEST_CASE("attention drops the probabilities that keys and heads say, and so do its gradients",
          "[backends][cpu]") {
  for (const Shape& s : kShapes) {
    INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.dim);
    const Dropout dropout{s.heads};
    const Values qkv = random_values(s.qkv(), 11, 2.0), d_out = random_values(s.out(), 12);
    check_dropping(s, dropout, qkv, d_out);
  }
}

TEST_CASE("a probability whose bits are the limit is kept, and dropped if the limit is one more",
          "[backends][cpu]") {
  const Shape s{1, 40, 2, 1, 4};
  const Values qkv = random_values(s.qkv(), 13), d_out = random_values(s.out(), 14);
  for (const auto& [i, j] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 0}, {3, 1}, {8, 8}, {16, 2}, {17, 17}, {31, 30}, {32, 5}, {38, 0}}) {
    Dropout dropout{s.heads};
    const std::uint32_t bits = dropout.bits(0, 1, i, j);
    for (const double limit : {bits + 0.0, bits + 1.0}) {
      dropout.share = limit / 4294967296.0;
      INFO("query " << i << ", key " << j << ", limit " << dropped_below(dropout.share));
      REQUIRE(dropped_below(dropout.share) == limit);
      check_dropping(s, dropout, qkv, d_out);
    }
  }
}

TEST_CASE("with dropout, attention's gradient equals the finite difference of its forward",
          "[backends][cpu]") {
  const Shape s{2, 70, 4, 2, 6};
  const Dropout dropout{s.heads};
  const Values operand = dropout.operand(s.batch, up_to(s.seq));
  const Values qkv = random_values(s.qkv(), 21), g = random_values(s.out(), 22);
  KernelCase forward = forward_case(s, qkv);
  dropout.add(forward, operand);
  const auto saved = run(forward);
  KernelCase backward = backward_case(s, qkv, saved[0], saved[1], g);
  dropout.add(backward, operand);
  const Values gradient = run(backward)[0];
  for (unsigned seed = 0; seed < 3; ++seed) {
    const Values direction = random_values(s.qkv(), 30 + seed);
    CHECK(slope(forward, 0, direction, g) == Approx(dot(gradient, direction)).epsilon(1e-6));
  }
}

TEST_CASE("with dropout, too, a rank's attention to gathered keys equals that of whole sequences",
          "[backends][cpu]") {
  for (const Slices& s :
       {Slices{{2, 12, 2, 1, 5}, 3}, Slices{{1, 160, 4, 2, 33}, 2}, Slices{{2, 400, 1, 1, 7}, 5}}) {
    const Shape& w = s.whole;
    const std::size_t width = w.heads * w.dim;
    const Dropout dropout{w.heads};
    const Values qkv = random_values(w.qkv(), 11, 2.0);
    const auto expected = reference(w, qkv, Values(w.out(), 0), dropout.factor());
    for (std::size_t rank = 0; rank < s.parts; ++rank) {
      INFO(w.seq << " tokens, rank " << rank << " of " << s.parts);
      std::vector<std::size_t> positions;
      for (std::size_t i = 0; i < s.own().seq; ++i) positions.push_back(s.position(rank, i));
      Values lse;
      for (std::size_t bh = 0; bh < w.batch * w.heads; ++bh) {
        for (const std::size_t i : positions) lse.push_back(expected[1][bh * w.seq + i]);
      }
      KernelCase forward{KernelKind::AttentionForward};
      forward.dims = s.dims();
      forward.in = {{s.queries(rank, qkv, 99.0)}, {s.keys(qkv)}, {s.starts(rank)}};
      forward.out = {{s.own().out()}, {s.own().lse()}};
      dropout.add(forward, dropout.operand(w.batch, positions));
      check_case(forward, {s.of(rank, expected[0], width, 0, width), lse}, 2e-6, 1e-14);
    }
  }
}

/// Another scale; caps that scores hardly reach, and that most of them would exceed; and both.
const Scoring kScorings[] = {{0.2, 0}, {0, 50}, {0, 1.5}, {1, 4}};

TEST_CASE("attention scales scores with what is given and caps them, and so do its gradients",
          "[backends][cpu]") {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.push_back(kLongShapes[0]);
  for (const Scoring& scoring : kScorings) {
    for (const Shape& s : shapes) {
      INFO(s.batch << " " << s.seq << " " << s.heads << " " << s.kv_heads << " " << s.dim
                   << ", scale " << scoring.scale << ", cap " << scoring.cap);
      const Values qkv = random_values(s.qkv(), 11, 2.0), d_out = random_values(s.out(), 12);
      const auto expected = reference(s, qkv, d_out, nothing_dropped, scoring);
      KernelCase forward = forward_case(s, qkv);
      KernelCase backward = backward_case(s, qkv, expected[0], expected[1], d_out);
      scoring.add(forward);
      scoring.add(backward);
      check_case(forward, {expected[0], expected[1]}, 2e-6, 1e-14);
      check_case(backward, {expected[2]}, 4e-6, 2e-14);
      check_dropping(s, Dropout{s.heads}, qkv, d_out, scoring);
    }
  }
}

TEST_CASE("a cap far above all scores changes nothing but their last bits", "[backends][cpu]") {
  // Small arguments of the tangent keep their relative precision, which a difference of
  // exponentials would lose: 1e9 times the rounding of 1 is 1e-7.
  const Shape s{1, 65, 4, 2, 33};
  const Values qkv = random_values(s.qkv(), 11, 2.0), d_out = random_values(s.out(), 12);
  const auto expected = reference(s, qkv, d_out);
  KernelCase forward = forward_case(s, qkv);
  KernelCase backward = backward_case(s, qkv, expected[0], expected[1], d_out);
  for (KernelCase* c : {&forward, &backward}) c->scalars = {0, 0, 1e9};
  check_case(forward, {expected[0], expected[1]}, 2e-6, 1e-14);
  check_case(backward, {expected[2]}, 4e-6, 2e-14);
}

TEST_CASE("scores far above the cap are the cap, of either sign", "[backends][cpu]") {
  // Scores of up to 7200: the tangent is 1 or -1, and its slope 0.
  const Shape s{1, 100, 1, 1, 4};
  const Values qkv = random_values(s.qkv(), 5, 60.0), d_out = random_values(s.out(), 6);
  const Scoring scoring{0, 3};
  const auto expected = reference(s, qkv, d_out, nothing_dropped, scoring);
  KernelCase forward = forward_case(s, qkv);
  KernelCase backward = backward_case(s, qkv, expected[0], expected[1], d_out);
  scoring.add(forward);
  scoring.add(backward);
  check_case(forward, {expected[0], expected[1]}, 2e-6, 1e-14);
  // What is left of gradients comes from the few scores that are small; in float32 products of
  // 60 * 60 round by more.
  check_case(backward, {expected[2]}, 1e-4, 1e-12);
}

TEST_CASE("with a cap, attention's gradient equals the finite difference of its forward",
          "[backends][cpu]") {
  const Shape s{2, 70, 4, 2, 6};
  const Values qkv = random_values(s.qkv(), 21), g = random_values(s.out(), 22);
  for (const Scoring& scoring : kScorings) {
    INFO("scale " << scoring.scale << ", cap " << scoring.cap);
    KernelCase forward = forward_case(s, qkv);
    scoring.add(forward);
    const auto saved = run(forward);
    KernelCase backward = backward_case(s, qkv, saved[0], saved[1], g);
    scoring.add(backward);
    const Values gradient = run(backward)[0];
    for (unsigned seed = 0; seed < 3; ++seed) {
      const Values direction = random_values(s.qkv(), 30 + seed);
      CHECK(slope(forward, 0, direction, g) == Approx(dot(gradient, direction)).epsilon(1e-6));
    }
  }
}

}  // namespace
}  // namespace lockstep::cpu::test
