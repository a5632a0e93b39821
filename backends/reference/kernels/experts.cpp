// Mixtures of experts: products by expert, routing of tokens, and combination of the results.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/float8.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::reference {
namespace {

void grouped_gemm(Operands& k) {
  const Index groups = k.dim(0), chunks = k.dim(1), m = k.dim(2), n = k.dim(3), inner = k.dim(4);
  const bool tb = k.dim(5) != 0;
  for (Index part = 0; part < chunks * groups; ++part) {
    const Index g = part % groups;
    const auto a = k.in(0, chunks * groups * m).middleRows(part * m, m);
    const auto b = tb ? k.in(1, groups * n).middleRows(g * n, n)
                      : k.in(1, groups * inner).middleRows(g * inner, inner);
    Matrix c = tb ? product(a, b.transpose()) : product(a, b);
    if (k.has_in(2)) c.rowwise() += k.in(2, groups).row(g);
    k.set(k.out(0, chunks * groups * m).middleRows(part * m, m), c);
  }
}

void grouped_gemm_weight(Operands& k) {
  const Index groups = k.dim(0), chunks = k.dim(1), rows = k.dim(2), m = k.dim(3), n = k.dim(4);
  const Index all = chunks * groups * rows;
  for (Index g = 0; g < groups; ++g) {
    Matrix dw = Matrix::Zero(m, n);
    Row dbias = Row::Zero(m);
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const auto dy = k.in(0, all).middleRows((chunk * groups + g) * rows, rows);
      dw += product(dy.transpose(), k.in(1, all).middleRows((chunk * groups + g) * rows, rows));
      dbias += dy.colwise().sum();
    }
    k.set(k.out(0, groups * m).middleRows(g * m, m), dw);
    if (k.has_out(1)) k.set(k.out(1, groups).row(g), dbias);
  }
}

/// Where the rows of a part begin, if those of the part before end at `row`.
Index begin_of_part(Index part, Index parts, Index blocks, Index places, Index row) {
  const Index of_block = parts / blocks;
  return part % of_block == 0 ? part / of_block * (places / blocks) : row;
}

void ragged_gemm(Operands& k) {
  const Index groups = k.dim(0), chunks = k.dim(1), places = k.dim(2), n = k.dim(4);
  const Index inner = k.dim(5);
  Index row = 0;
  for (Index part = 0; part < chunks * groups; ++part) {
    const Index g = part % groups, m = static_cast<Index>(k.in(3)(part));
    row = begin_of_part(part, chunks * groups, k.dim(7), places, row);
    const auto a = k.in(0, places).middleRows(row, m);
    const Index first = row;
    row += m;
    if (m == 0) continue;
    Matrix c = k.dim(6) != 0 ? product(a, k.in(1, groups * n).middleRows(g * n, n).transpose())
                             : product(a, k.in(1, groups * inner).middleRows(g * inner, inner));
    if (k.has_in(2)) c.rowwise() += k.in(2, groups).row(g);
    k.set(k.out(0, places).middleRows(first, m), c);
  }
}

void ragged_gemm_weight(Operands& k) {
  const Index groups = k.dim(0), chunks = k.dim(1), places = k.dim(2), m = k.dim(4), n = k.dim(5);
  Matrix dw = Matrix::Zero(groups * m, n), dbias = Matrix::Zero(groups, m);
  Index row = 0;
  for (Index part = 0; part < chunks * groups; ++part) {
    const Index g = part % groups, rows = static_cast<Index>(k.in(2)(part));
    row = begin_of_part(part, chunks * groups, k.dim(6), places, row);
    const auto dy = k.in(0, places).middleRows(row, rows);
    const auto x = k.in(1, places).middleRows(row, rows);
    row += rows;
    if (rows == 0) continue;
    dw.middleRows(g * m, m) += product(dy.transpose(), x);
    dbias.row(g) += dy.colwise().sum();
  }
  k.set(k.out(0, groups * m), dw);
  if (k.has_out(1)) k.set(k.out(1, groups), dbias);
}

/// The largest magnitude of the elements of a block that are finite.
double largest_of(const Row& block) {
  return block.unaryExpr([](double v) { return std::isfinite(v) ? std::abs(v) : 0; }).maxCoeff();
}
double value_of(double code, double scale, double mantissa) {
  return float8_value(static_cast<std::uint8_t>(code), static_cast<int>(mantissa)) * scale;
}

void ragged_quantize(Operands& k) {
  const Index parts = k.dim(0), places = k.dim(1), cols = k.dim(3), along = k.dim(5);
  const bool transposed = k.dim(4) != 0;
  const int mantissa = static_cast<int>(k.scalar(0));
  View codes = k.out(0, transposed ? cols : places), scales = k.out(1, transposed ? cols : places);
  Index row = 0, padded = 0;
  double most = 0;
  for (Index part = 0; part < parts; ++part) {
    const Index rows = static_cast<Index>(k.in(1)(part));
    row = begin_of_part(part, parts, k.dim(6), places, row);
    const Matrix x = k.in(0, places).middleRows(row, rows);
    const Matrix y = transposed ? Matrix(x.transpose()) : x;
    for (Index r = 0; r < y.rows(); ++r) {
      for (Index first = 0; first < y.cols(); first += along) {
        const Index length = std::min(along, y.cols() - first);
        const double largest = largest_of(y.row(r).segment(first, length));
        const double scale =
            k.has_in(2) ? k.in(2)(0) : std::ldexp(1.0, float8_exponent(largest, mantissa));
        most = std::max(most, largest);
        const Index line = transposed ? r : row + r, at = transposed ? padded + first : first;
        scales(line, at / along) = scale;
        if (transposed) codes.row(line).segment(at, along) = 0;
        for (Index i = 0; i < length; ++i) {
          codes(line, at + i) = float8_code(y(r, first + i) / scale, mantissa);
        }
      }
    }
    row += rows;
    padded += (rows + along - 1) / along * along;
  }
  if (k.has_out(2)) k.out(2)(0) = most;
}

void ragged_scaled_gemm(Operands& k) {
  const Index groups = k.dim(0), chunks = k.dim(1), places = k.dim(2), n = k.dim(4);
  const Index inner = k.dim(5), across = k.dim(6), along = k.dim(7);
  const bool beside = k.scalar(2) != 0;
  const auto blocks = static_cast<Index>(k.scalar(3));
  const View a = k.in(0, places), b = k.in(1, beside ? n : groups * n);
  const View a_scales = k.in(2, places), b_scales = k.in(3, b.rows() / across);
  Index row = 0;
  for (Index part = 0; part < chunks * groups; ++part) {
    const Index g = part % groups, rows = static_cast<Index>(k.in(4)(part));
    row = begin_of_part(part, chunks * groups, blocks, places, row);
    Matrix x(rows, inner), w(n, inner);
    for (Index j = 0; j < inner; ++j) {
      for (Index i = 0; i < rows; ++i) {
        x(i, j) = value_of(a(row + i, j), a_scales(row + i, j / along), k.scalar(0));
      }
      for (Index i = 0; i < n; ++i) {
        const Index line = beside ? i : g * n + i, at = beside ? g * inner + j : j;
        w(i, j) = value_of(b(line, at), b_scales(line / across, at / along), k.scalar(1));
      }
    }
    if (rows > 0) k.out(0, places).middleRows(row, rows) = product(x, w.transpose());
    row += rows;
  }
}

void ragged_scaled_gemm_weight(Operands& k) {
  const Index groups = k.dim(0), chunks = k.dim(1), m = k.dim(4), n = k.dim(5), along = k.dim(6);
  Matrix dw = Matrix::Zero(groups * m, n);
  Index first = 0;
  for (Index part = 0; part < chunks * groups; ++part) {
    const auto rows = static_cast<Index>(k.in(4)(part));
    const Index length = (rows + along - 1) / along * along;
    const auto factor = [&](std::size_t i, Index lines) {
      Matrix values(lines, length);
      for (Index r = 0; r < lines; ++r) {
        for (Index c = 0; c < length; ++c) {
          values(r, c) = value_of(k.in(i, lines)(r, first + c),
                                  k.in(2 + i, lines)(r, (first + c) / along), k.scalar(i));
        }
      }
      return values;
    };
    if (length > 0) {
      dw.middleRows(part % groups * m, m) += product(factor(0, m), factor(1, n).transpose());
    }
    first += length;
  }
  k.set(k.out(0, groups * m), dw);
}

/// Calls body(first row, rows) for the rows of each block.
template <class Body>
void each_block(Operands& k, std::size_t counts, const Body& body) {
  const Index places = k.dim(0), blocks = k.dim(5);
  for (Index block = 0; block < blocks; ++block) {
    const auto rows = static_cast<Index>(k.in(counts, blocks).row(block).sum());
    if (rows > 0) body(block * (places / blocks), rows);
  }
}

void ragged_activation_forward(Operands& k) {
  const Index places = k.dim(0), cols = k.dim(2);
  each_block(k, 1, [&](Index first, Index rows) {
    const Matrix x = k.in(0, places).middleRows(first, rows);
    auto y = k.out(0, places).middleRows(first, rows);
    if (k.dim(3) == 0) {
      y = x * gelu_gate(x);
    } else {
      const Matrix gate = x.leftCols(cols);
      y = gate * sigmoid(gate) * x.rightCols(cols);
    }
  });
}

void ragged_activation_backward(Operands& k) {
  const Index places = k.dim(0), cols = k.dim(2);
  each_block(k, 2, [&](Index first, Index rows) {
    const Matrix dy = k.in(0, places).middleRows(first, rows);
    const Matrix x = k.in(1, places).middleRows(first, rows);
    auto dx = k.out(0, places).middleRows(first, rows);
    if (k.dim(3) == 0) {
      dx = dy * gelu_slope(x);
    } else {
      const Matrix gate = x.leftCols(cols), s = sigmoid(gate);
      dx.leftCols(cols) = dy * x.rightCols(cols) * (s + gate * s * (1 - s));
      dx.rightCols(cols) = dy * gate * s;
    }
  });
}

/// The expert of a slot. A slot is a place of an expert, or -1 - expert if the expert was full; or,
/// without a capacity, a place behind those of the experts before.
Index expert_of(Operands& k, double slot, std::size_t counts) {
  const auto at = static_cast<Index>(slot);
  const Index capacity = k.dim(3);
  if (capacity > 0) return at < 0 ? -1 - at : at / capacity;
  Index expert = 0;
  for (auto end = static_cast<Index>(k.in(counts)(0)); at >= end;) {
    end += static_cast<Index>(k.in(counts)(++expert));
  }
  return expert;
}

void route_forward(Operands& k) {
  const Index tokens = k.dim(0), experts = k.dim(1), choices = k.dim(2), capacity = k.dim(3);
  View probs = k.out(0, tokens), gates = k.out(1, tokens), slots = k.out(2, tokens);
  View sources = k.out(3, capacity > 0 ? experts : 1);
  const View logits = k.in(0, tokens);
  Matrix chosen(tokens, choices);
  for (Index t = 0; t < tokens; ++t) {
    const Row e = (logits.row(t) - logits.row(t).maxCoeff()).exp();
    probs.row(t) = k.dim(4) == 0 ? Row(e / e.sum()) : Row(1 / (1 + (-logits.row(t)).exp()));
    IndexVector<Index, Index> order(experts);
    std::iota(order.begin(), order.end(), Index{0});
    Row score = probs.row(t);
    if (k.has_in(1)) score += k.in(1).row(0);
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return score(a) > score(b); });
    for (Index c = 0; c < choices; ++c) {
      const Index expert = order[c];
      chosen(t, c) = static_cast<double>(expert);
      gates(t, c) = probs(t, expert);
    }
    if (choices > 1) gates.row(t) /= gates.row(t).sum();
  }
  sources = -1;
  IndexVector<Index, Index> taken(experts, 0);
  if (capacity == 0) {  // of every expert, the first place behind those of the experts before
    View counts = k.out(4);
    counts = 0;
    for (Index i = 0; i < chosen.size(); ++i) counts(static_cast<Index>(chosen(i))) += 1;
    for (Index e = 1; e < experts; ++e) taken[e] = taken[e - 1] + static_cast<Index>(counts(e - 1));
    for (Index c = 0; c < choices; ++c) {
      for (Index t = 0; t < tokens; ++t) {
        const Index place = taken[static_cast<Index>(chosen(t, c))]++;
        slots(t, c) = static_cast<double>(place);
        sources(place) = static_cast<double>(t);
      }
    }
    return;
  }
  for (Index c = 0; c < choices; ++c) {
    for (Index t = 0; t < tokens; ++t) {
      const auto expert = static_cast<Index>(chosen(t, c));
      Index& place = taken[expert];
      slots(t, c) = static_cast<double>(place < capacity ? expert * capacity + place : -1 - expert);
      if (place < capacity) sources(expert, place++) = static_cast<double>(t);
    }
  }
}

/// The gradient of sum(weights × probs / sum(probs)). Of a softmax, whose sum is 1, what all
/// elements have in common is left out: it has no slope.
Row balancing(const Row& weights, const Row& probs, bool sigmoid) {
  if (!sigmoid) return weights;
  const double sum = probs.sum();
  return (weights - (weights * probs).sum() / sum) / sum;
}

/// What gradients of probabilities are of logits.
Row of_logits(const Row& dprobs, const Row& probs, bool sigmoid) {
  if (sigmoid) return dprobs * probs * (1 - probs);
  return probs * (dprobs - (dprobs * probs).sum());
}

void route_backward(Operands& k) {
  const Index tokens = k.dim(0), experts = k.dim(1), choices = k.dim(2);
  const View dgates = k.in(0, tokens), probs = k.in(1, tokens), slots = k.in(2, tokens);
  const double all = static_cast<double>(tokens * choices);
  Row load = Row::Zero(experts);  // the fraction of all choices that went to each expert
  for (Index i = 0; i < tokens * choices; ++i) load(expert_of(k, k.in(2)(i), 4)) += 1 / all;
  for (Index t = 0; t < tokens; ++t) {
    const Row balance = k.scalar(0) * k.factor(3) * static_cast<double>(experts) * load;
    Row dprobs = balancing(balance, probs.row(t), k.dim(4) != 0);
    Row p(choices);  // probabilities of the chosen; gates are p / sum, or p with one choice
    for (Index c = 0; c < choices; ++c) p(c) = probs(t, expert_of(k, slots(t, c), 4));
    const double along = (dgates.row(t) * p / p.sum()).sum();
    for (Index c = 0; c < choices; ++c) {
      dprobs(expert_of(k, slots(t, c), 4)) +=
          choices > 1 ? (dgates(t, c) - along) / p.sum() : dgates(t, c);
    }
    k.out(0, tokens).row(t) = of_logits(dprobs, probs.row(t), k.dim(4) != 0);
  }
}

void route_load(Operands& k) {
  const Index tokens = k.dim(0), experts = k.dim(1), choices = k.dim(2);
  Row load = Row::Zero(experts);
  for (Index i = 0; i < tokens * choices; ++i) {
    load(std::min(experts - 1, expert_of(k, k.in(0)(i), 1))) += 1;
  }
  k.set(k.out(0, 1).row(0), load);
}

void route_balance(Operands& k) {
  const Index tokens = k.dim(0), experts = k.dim(1);
  const View probs = k.in(1, tokens);
  const Row load = k.in(2, 1).row(0);
  const Row balance = k.scalar(0) * k.factor(3) * static_cast<double>(experts) * load / load.sum();
  const bool sigmoid = k.dim(2) != 0;
  for (Index t = 0; t < tokens; ++t) {
    const Row dprobs = balancing(balance, probs.row(t), sigmoid);
    k.out(0, tokens).row(t) = k.in(0, tokens).row(t) + of_logits(dprobs, probs.row(t), sigmoid);
  }
}

void combine_forward(Operands& k) {
  const Index tokens = k.dim(0), choices = k.dim(2), places = k.dim(3);
  View y = k.out(0, tokens);
  y = 0;
  if (k.has_in(3)) y += k.in(3, tokens);
  for (Index t = 0; t < tokens; ++t) {
    for (Index c = 0; c < choices; ++c) {
      const auto slot = static_cast<Index>(k.in(2, tokens)(t, c));
      if (slot >= 0) y.row(t) += k.in(1, tokens)(t, c) * k.in(0, places).row(slot);
    }
  }
}

void combine_backward(Operands& k) {
  const Index tokens = k.dim(0), choices = k.dim(2), places = k.dim(3);
  const View dy = k.in(0, tokens);
  View dx = k.out(0, places), dgates = k.out(1, tokens);
  dx = 0;
  dgates = 0;
  for (Index t = 0; t < tokens; ++t) {
    for (Index c = 0; c < choices; ++c) {
      const auto slot = static_cast<Index>(k.in(3, tokens)(t, c));
      if (slot < 0) continue;
      dx.row(slot) += k.in(2, tokens)(t, c) * dy.row(t);
      dgates(t, c) = (dy.row(t) * k.in(1, places).row(slot)).sum();
    }
  }
}

void gate_forward(Operands& k) {
  const Index rows = k.dim(0);
  const Column gate = sigmoid(Column(k.in(1, rows).col(0)));
  Matrix y = k.in(0, rows).colwise() * gate;
  if (k.has_in(2)) y += k.in(2, rows);
  k.out(0, rows) = y;
}

void gate_backward(Operands& k) {
  const Index rows = k.dim(0);
  const Column gate = sigmoid(Column(k.in(2, rows).col(0)));
  const Column along = (k.in(0, rows) * k.in(1, rows)).rowwise().sum();
  k.out(1, rows).col(0) = gate * (1 - gate) * along;
  k.out(0, rows) = k.in(0, rows).colwise() * gate;
}

}  // namespace

void add_experts(Definitions& kernels) {
  kernels[KernelKind::GroupedGemm] = grouped_gemm;
  kernels[KernelKind::GroupedGemmWeight] = grouped_gemm_weight;
  kernels[KernelKind::RaggedGemm] = ragged_gemm;
  kernels[KernelKind::RaggedGemmWeight] = ragged_gemm_weight;
  kernels[KernelKind::RaggedQuantize] = ragged_quantize;
  kernels[KernelKind::RaggedScaledGemm] = ragged_scaled_gemm;
  kernels[KernelKind::RaggedScaledGemmWeight] = ragged_scaled_gemm_weight;
  kernels[KernelKind::RaggedActivationForward] = ragged_activation_forward;
  kernels[KernelKind::RaggedActivationBackward] = ragged_activation_backward;
  kernels[KernelKind::RouteForward] = route_forward;
  kernels[KernelKind::RouteBackward] = route_backward;
  kernels[KernelKind::RouteLoad] = route_load;
  kernels[KernelKind::RouteBalance] = route_balance;
  kernels[KernelKind::CombineForward] = combine_forward;
  kernels[KernelKind::CombineBackward] = combine_backward;
  kernels[KernelKind::GateForward] = gate_forward;
  kernels[KernelKind::GateBackward] = gate_backward;
}

}  // namespace lockstep::reference
