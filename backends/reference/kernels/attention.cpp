// Attention: softmax(q kᵀ / sqrt(head_dim)) v for every head, over all keys, or those that are not
// later than the query (Vaswani et al. 2017, section 3.2.1), with another factor, or scores that
// are capped (Gemma Team 2024, arXiv:2408.00118, section 2); and rotary positions (Su et al. 2021).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/dropout.hpp"

namespace lockstep::reference {
namespace {

/// The positions of `seq` tokens in the sequence: 0, 1, …, or those of two pieces of seq / 2 tokens
/// each that begin at `starts`.
Column positions(Index seq, const double* starts = nullptr) {
  Column all = Column::LinSpaced(seq, 0, static_cast<double>(seq - 1));
  if (starts == nullptr) return all;
  Column pieces(seq);
  pieces << starts[0] + all.head(seq / 2), starts[1] + all.head(seq / 2);
  return pieces;
}

class Attention {
 public:
  /// `kv` is the index of the operand with keys and values; `starts`, `documents` and `dropout` are
  /// the next.
  Attention(Operands& k, std::size_t kv)
      : batch(k.dim(0)),
        seq(k.dim(1)),
        heads(k.dim(2)),
        kv_heads(k.dim(3)),
        dim(k.dim(4)),
        parts(k.dim(5)),
        causal(k.dim(7) == 0),
        scale(k.scalar(1) > 0 ? k.scalar(1) : 1 / std::sqrt(static_cast<double>(dim))),
        cap(k.scalar(2)),
        k_(k),
        kv_(kv) {}

  const Index batch, seq, heads, kv_heads, dim, parts;
  const bool causal;
  const double scale, cap;

  /// The columns of head h in a matrix of all heads.
  template <class M>
  auto head(M&& all, Index b, Index h) const {
    return all.block(b * seq, h * dim, seq, dim);
  }
  auto queries(Index b, Index h) const { return head(k_.in(0, batch * seq), b, h); }
  /// Keys of all heads, then values, to which the queries of sequence b may attend.
  Matrix keys_and_values(Index b) const {
    const Index width = 2 * kv_heads * dim;
    if (parts == 0) return k_.in(0, batch * seq).block(b * seq, heads * dim, seq, width);
    Matrix all(parts * seq, width);
    for (Index p = 0; p < parts; ++p) {
      all.middleRows(p * seq, seq) =
          k_.in(kv_, parts * batch * seq).middleRows((p * batch + b) * seq, seq);
    }
    return all;
  }
  /// The column at which the head of keys begins that query head h uses; values lie kv_heads × dim
  /// columns behind.
  Index key_column(Index h) const { return h / (heads / kv_heads) * dim; }
  Index value_column(Index h) const { return key_column(h) + kv_heads * dim; }

  /// Where in the sequence the keys stand.
  Column key_positions() const {
    if (parts == 0) return positions(seq);
    Column at(parts * seq);
    for (Index p = 0; p < parts; ++p) {
      at.segment(p * seq, seq) = positions(seq, k_.in(kv_ + 1).data() + 2 * (p + 1));
    }
    return at;
  }
  /// scale q kᵀ of head h, capped if there is a cap; -infinity where the query does not see the
  /// key.
  Matrix scores(Index b, Index h, const Matrix& kv) const {
    Matrix s = product(queries(b, h), kv.middleCols(key_column(h), dim).transpose()) * scale;
    if (cap > 0) s = cap * (s / cap).tanh();
    const Column key_at = key_positions();
    const Column query_at = positions(seq, parts > 0 ? k_.in(kv_ + 1).data() : nullptr);
    const double* const documents = k_.has_in(kv_ + 2) ? k_.in(kv_ + 2).data() : nullptr;
    for (Index i = 0; i < seq; ++i) {
      for (Index j = 0; j < key_at.size(); ++j) {
        const bool other_document =
            documents != nullptr && (key_at(j) < documents[b * seq + i] ||
                                     (!causal && key_at(j) >= documents[(batch + b) * seq + i]));
        const bool later = causal && key_at(j) > query_at(i);
        if (later || other_document) s(i, j) = -std::numeric_limits<double>::infinity();
      }
    }
    return s;
  }
  /// The derivative of each of these scores by the score before the cap; 0 where the query does not
  /// see the key.
  Matrix slopes(const Matrix& scores) const {
    if (cap == 0) return Matrix::Ones(scores.rows(), scores.cols());
    return scores.isFinite().select(1 - (scores / cap).square(), 0);
  }
  /// What each probability of head h is multiplied by: 1; or with dropout, 0 or 1 / (1 - share).
  Matrix kept(Index b, Index h) const {
    const Column key_at = key_positions();
    Matrix factors = Matrix::Ones(seq, key_at.size());
    if (!k_.has_in(kv_ + 3)) return factors;
    const double* const dropout = k_.in(kv_ + 3).data();
    const double share = k_.scalar(0);
    for (Index i = 0; i < seq; ++i) {
      const auto key = static_cast<std::int32_t>(dropout[heads + b * seq + i]);
      if (key < 0) continue;
      const auto row = DropoutRow::of_query(key, k_.context().layer, static_cast<int>(dropout[h]));
      for (Index j = 0; j < key_at.size(); ++j) {
        const bool dropped = row.bits(static_cast<std::uint32_t>(key_at(j))) < dropped_below(share);
        factors(i, j) = dropped ? 0 : 1 / (1 - share);
      }
    }
    return factors;
  }

 private:
  Operands& k_;
  std::size_t kv_;
};

void attention_forward(Operands& k) {
  const Attention a(k, 1);
  for (Index b = 0; b < a.batch; ++b) {
    const Matrix kv = a.keys_and_values(b);
    for (Index h = 0; h < a.heads; ++h) {
      const Matrix s = a.scores(b, h, kv);
      auto o = a.head(k.out(0, a.batch * a.seq), b, h);
      auto lse_row = k.out(1, a.batch * a.heads).row(b * a.heads + h);
      // What other keys gave counts as one key of that score, whose value is their result.
      Column before = Column::Constant(a.seq, -std::numeric_limits<double>::infinity());
      if (k.kernel().accumulate) before = lse_row.transpose();
      const Column largest = Column(s.rowwise().maxCoeff()).max(before);
      const Column lse =
          ((s.colwise() - largest).exp().rowwise().sum() + (before - largest).exp()).log() +
          largest;
      const Matrix weights = (s.colwise() - lse).exp() * a.kept(b, h);
      if (k.kernel().accumulate) o.colwise() *= (before - lse).exp();
      k.set(o, product(weights, kv.middleCols(a.value_column(h), a.dim)));
      lse_row = lse.transpose();
    }
  }
}

void attention_backward(Operands& k) {
  const Attention a(k, 4);
  const Index rows = a.batch * a.seq;
  for (Index b = 0; b < a.batch; ++b) {
    const Matrix kv = a.keys_and_values(b);
    Matrix dkv = Matrix::Zero(kv.rows(), kv.cols());
    for (Index h = 0; h < a.heads; ++h) {
      const auto lse = k.in(2, a.batch * a.heads).row(b * a.heads + h).transpose();
      const Matrix scores = a.scores(b, h, kv);
      const Matrix weights = (scores.colwise() - lse).exp();
      const Matrix d_o = a.head(k.in(3, rows), b, h), kept = a.kept(b, h);
      // The gradient goes through the softmax: ds = p (dp - sum of p dp). That sum equals the sum
      // of o do.
      const Matrix dp = product(d_o, kv.middleCols(a.value_column(h), a.dim).transpose()) * kept;
      const Column along = (a.head(k.in(1, rows), b, h) * d_o).rowwise().sum();
      const Matrix ds = weights * (dp.colwise() - along) * a.slopes(scores) * a.scale;
      k.set(a.head(k.out(0, rows), b, h), product(ds, kv.middleCols(a.key_column(h), a.dim)));
      dkv.middleCols(a.key_column(h), a.dim) += product(ds.transpose(), a.queries(b, h));
      dkv.middleCols(a.value_column(h), a.dim) += product((weights * kept).transpose(), d_o);
    }
    if (a.parts == 0) {
      k.out(0, rows).block(b * a.seq, a.heads * a.dim, a.seq, dkv.cols()) = dkv;
    }
    for (Index p = 0; p < a.parts; ++p) {
      k.out(1, a.parts * rows).middleRows((p * a.batch + b) * a.seq, a.seq) =
          dkv.middleRows(p * a.seq, a.seq);
    }
  }
}

/// How far pair i of `half` turns from one position to the next: theta^(-i / half), slowed down
/// wholly above one wavelength, not at all below another, and in between by shares that go with how
/// many of a third wavelength fit (the scalars of the kernel; Llama 3.1).
double turn(const Operands& k, Index i, Index half) {
  const double plain = std::pow(k.scalar(0), -static_cast<double>(i) / static_cast<double>(half));
  const double slowing = k.scalar(1), longest = k.scalar(2), shortest = k.scalar(3);
  if (slowing == 0) return plain;
  const double waves = plain / (2 * std::numbers::pi);  // per position
  const double share = longest == shortest ? 0 : (waves * longest - 1) / (longest / shortest - 1);
  const double kept = std::clamp(share, 0.0, 1.0);
  return plain * (kept + (1 - kept) / slowing);
}

void rope(Operands& k) {
  const Index batch = k.dim(0), seq = k.dim(1), heads = k.dim(2), dim = k.dim(3);
  const double sign = k.dim(5) != 0 ? -1 : 1;
  const Index skip = k.dim(6), stride = skip + dim + k.dim(7);
  const Column at = positions(seq, k.has_in(1) ? k.in(1).data() : nullptr);
  const View x = k.in(0, batch * seq);
  View y = k.out(0, batch * seq);
  for (Index row = 0; row < batch * seq; ++row) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < dim / 2; ++i) {
        const double angle = sign * at(row % seq) * turn(k, i, dim / 2);
        const Index left = h * stride + skip + i, right = left + dim / 2;
        y(row, left) = x(row, left) * std::cos(angle) - x(row, right) * std::sin(angle);
        y(row, right) = x(row, right) * std::cos(angle) + x(row, left) * std::sin(angle);
      }
    }
  }
}

void join_latent(Operands& k) {
  const Index rows = k.dim(0), heads = k.dim(1), nope = k.dim(2), rope = k.dim(3);
  const Index head = nope + rope, value = k.dim(4);
  const View q = k.in(0, rows), kv = k.in(1, rows * heads), shared = k.in(2, rows);
  View qkv = k.out(0, rows);
  qkv = 0;
  qkv.leftCols(heads * head) = q;
  for (Index row = 0; row < rows; ++row) {
    for (Index h = 0; h < heads; ++h) {
      const auto own = kv.row(row * heads + h);
      qkv.row(row).segment((heads + h) * head, nope) = own.head(nope);
      qkv.row(row).segment((heads + h) * head + nope, rope) = shared.row(row);
      qkv.row(row).segment((2 * heads + h + 1) * head - value, value) = own.tail(value);
    }
  }
}

void part_latent(Operands& k) {
  const Index rows = k.dim(0), heads = k.dim(1), nope = k.dim(2), rope = k.dim(3);
  const Index head = nope + rope, value = k.dim(4);
  const View dqkv = k.in(0, rows);
  View dkv = k.out(1, rows * heads), shared = k.out(2, rows);
  k.out(0, rows) = dqkv.leftCols(heads * head);
  shared = 0;
  for (Index row = 0; row < rows; ++row) {
    for (Index h = 0; h < heads; ++h) {
      auto own = dkv.row(row * heads + h);
      own.head(nope) = dqkv.row(row).segment((heads + h) * head, nope);
      own.tail(value) = dqkv.row(row).segment((2 * heads + h + 1) * head - value, value);
      shared.row(row) += dqkv.row(row).segment((heads + h) * head + nope, rope);
    }
  }
}

}  // namespace

void add_attention(Definitions& kernels) {
  kernels[KernelKind::AttentionForward] = attention_forward;
  kernels[KernelKind::AttentionBackward] = attention_backward;
  kernels[KernelKind::Rope] = rope;
  kernels[KernelKind::JoinLatent] = join_latent;
  kernels[KernelKind::PartLatent] = part_latent;
}

}  // namespace lockstep::reference
