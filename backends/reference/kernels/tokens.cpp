// Embeddings: rows of a table by the ids of tokens.
#include <algorithm>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"

namespace lockstep::reference {
namespace {

/// The row of the table for an id; -1 if the id is not in it.
Index row_of(double id, Index vocab) {
  const auto row = static_cast<Index>(id);
  return row < vocab ? std::max<Index>(row, -1) : -1;
}

void embedding_forward(Operands& k) {
  const Index tokens = k.dim(0), seq = k.dim(2), vocab = k.dim(3);
  View y = k.out(0, tokens);
  y = 0;
  for (Index t = 0; t < tokens; ++t) {
    const Index row = row_of(k.in(0)(t), vocab);
    if (row >= 0) y.row(t) = k.in(1, vocab).row(row);
    if (k.has_in(2)) y.row(t) += k.in(2, seq).row(t % seq);
  }
}

void embedding_backward(Operands& k) {
  const Index tokens = k.dim(0), seq = k.dim(2), vocab = k.dim(3);
  const View dy = k.in(1, tokens);
  if (!k.kernel().accumulate) {
    k.out(0) = 0;
    if (k.has_out(1)) k.out(1) = 0;
  }
  for (Index t = 0; t < tokens; ++t) {
    const Index row = row_of(k.in(0)(t), vocab);
    if (row >= 0) k.out(0, vocab).row(row) += dy.row(t);
    if (k.has_out(1)) k.out(1, seq).row(t % seq) += dy.row(t);
  }
}

}  // namespace

void add_tokens(Definitions& kernels) {
  kernels[KernelKind::EmbeddingForward] = embedding_forward;
  kernels[KernelKind::EmbeddingBackward] = embedding_backward;
}

}  // namespace lockstep::reference
