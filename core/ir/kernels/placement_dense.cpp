// Rules of placement for products, norms, attention, embeddings and the loss.
#include "core/ir/kernels/placement.hpp"

namespace lockstep {
namespace {

using namespace placing;

bool gemm(const Kernel& k, AxisOperands& o) {
  const auto& [a, b, bias, resid] = std::array<Along, 4>{o.in[0], o.in[1], o.in[2], o.in[3]};
  const Along c = k.dims[3] == 0 ? product(a, b) : weight_gradient(a, b);
  if (c == Along::Partial ? bias != Along::Nothing : !fits_columns(bias, c)) return false;
  return fits(resid, c) && results(k, o, {{c}});
}

/// Whether attention may read these. Queries may be a part of a sequence's tokens only if the keys
/// and values of the whole sequence are given beside them, and the places where its parts begin.
bool attention_reads(Along qkv, Along kv, Along starts) {
  if (!has_values(qkv)) return false;
  if (qkv == Along::Tokens) return kv == Along::Same && starts != Along::Nothing;
  return fits(kv, qkv);
}
bool attention_forward(const Kernel& k, AxisOperands& o) {
  const Along qkv = o.in[0];
  return attention_reads(qkv, o.in[1], o.in[2]) && results(k, o, {{qkv, qkv}});
}
bool attention_backward(const Kernel& k, AxisOperands& o) {
  const Along qkv = o.in[0];
  for (const std::size_t i : {1, 2, 3}) {
    if (o.in[i] != qkv) return false;
  }
  const Along keys = qkv == Along::Tokens ? Along::Partial : qkv;
  return attention_reads(qkv, o.in[4], o.in[5]) && results(k, o, {{qkv, keys}});
}

/// Rows must be whole, because the columns of a row are summed.
bool norm_forward(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  if (x == Along::Split || !has_values(x)) return false;
  return o.in[1] == Along::Same && fits(o.in[2], Along::Same) && results(k, o, {{x, x}});
}
bool norm_backward_input(const Kernel& k, AxisOperands& o) {
  const auto& [dy, x, w, stats, resid, rest1, rest2, rest3] = o.in;
  if (x == Along::Split || !has_values(x)) return false;
  return dy == x && stats == x && w == Along::Same && fits(resid, x) && results(k, o, {{x}});
}
bool norm_backward_weight(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[1], dw = weight_gradient(o.in[0], x);
  return x != Along::Split && o.in[2] == x && results(k, o, {{dw, dw}});
}

/// These functions work element by element, and are not linear.
bool pointwise(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return (has_values(x) || x == Along::Experts) && fits(o.in[1], x) && results(k, o, {{x}});
}

/// Rows are rotated by their positions in the sequence, which must be given if the rows are a part
/// of it.
bool rope(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  if (!has_values(x) || (x == Along::Tokens && o.in[1] == Along::Nothing)) return false;
  return results(k, o, {{x}});
}

/// Ids that count from a rank's part of the table read zeros where another part has their row, so
/// that every rank has a term of a sum.
bool embedding_forward(const Kernel& k, AxisOperands& o) {
  const Along ids = o.in[0], table = o.in[1], added = o.in[2];
  Along y = Along::Nothing;
  if (ids == Along::Split) {
    if (table == Along::Split) y = Along::Partial;
  } else if (ids == Along::Own) {
    if (is_rows(table)) y = table;
  } else if (table == Along::Same) {
    y = ids;
  }
  if (y == Along::Same && is_rows(added)) y = added;  // each rank adds the same rows
  const bool every_sample = y == Along::Samples && added == Along::Same;
  return (every_sample || fits(added, y)) && results(k, o, {{y}});
}
bool embedding_backward(const Kernel& k, AxisOperands& o) {
  const Along ids = o.in[0], dy = o.in[1];
  Along table = Along::Nothing;
  if (ids == Along::Split) {
    if (dy == Along::Same) table = Along::Split;
  } else if (ids == Along::Own) {
    if (is_rows(dy)) table = dy;
  } else if (ids == Along::Same && is_rows(dy)) {
    table = Along::Partial;
  } else {
    table = weight_gradient(dy, ids);
  }
  return results(k, o, {{table, table}});
}

bool cross_entropy(const Kernel& k, AxisOperands& o) {
  const Along logits = o.in[0];
  if (logits == Along::Split || !has_values(logits) || o.in[1] != logits) return false;
  return results(k, o, {{logits, sum_over_rows(logits)}});
}
bool cross_entropy_stats(const Kernel& k, AxisOperands& o) {
  const Along logits = o.in[0];
  if (!has_values(logits) || o.in[1] != logits) return false;
  return results(k, o, {{logits == Along::Split ? Along::Own : logits}});
}
bool cross_entropy_parallel(const Kernel& k, AxisOperands& o) {
  const Along logits = o.in[0];
  if (!has_values(logits) || o.in[1] != logits) return false;
  if (o.in[2] != (logits == Along::Split ? Along::Same : logits)) return false;
  const Along loss = logits == Along::Split ? Along::Same : sum_over_rows(logits);
  return results(k, o, {{logits, loss}});
}

/// A sum is linear: terms may be added to terms, but not to what is whole on every rank.
bool add(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0], bias = o.in[2];
  if (x != o.in[1]) return false;
  if (x == Along::Partial ? bias != Along::Nothing : !fits_columns(bias, x)) return false;
  return results(k, o, {{x}});
}

}  // namespace

bool place_dense(const Kernel& kernel, AxisOperands& operands) {
  switch (kernel.kind) {
    case KernelKind::Gemm:
      return gemm(kernel, operands);
    case KernelKind::ColumnSum:
      return results(kernel, operands, {{sum_over_rows(operands.in[0])}});
    case KernelKind::AttentionForward:
      return attention_forward(kernel, operands);
    case KernelKind::AttentionBackward:
      return attention_backward(kernel, operands);
    case KernelKind::LayerNormForward:
    case KernelKind::RmsNormForward:
      return norm_forward(kernel, operands);
    case KernelKind::LayerNormBackwardInput:
    case KernelKind::RmsNormBackwardInput:
      return norm_backward_input(kernel, operands);
    case KernelKind::LayerNormBackwardWeight:
    case KernelKind::RmsNormBackwardWeight:
      return norm_backward_weight(kernel, operands);
    case KernelKind::GeluForward:
    case KernelKind::GeluBackward:
    case KernelKind::SwigluForward:
    case KernelKind::SwigluBackward:
      return pointwise(kernel, operands);
    case KernelKind::Rope:
      return rope(kernel, operands);
    case KernelKind::EmbeddingForward:
      return embedding_forward(kernel, operands);
    case KernelKind::EmbeddingBackward:
      return embedding_backward(kernel, operands);
    case KernelKind::CrossEntropy:
      return cross_entropy(kernel, operands);
    case KernelKind::CrossEntropyStats:
      return cross_entropy_stats(kernel, operands);
    case KernelKind::CrossEntropyParallel:
      return cross_entropy_parallel(kernel, operands);
    case KernelKind::Add:
      return add(kernel, operands);
    case KernelKind::Regroup: {
      if (output_is_read(kernel, 0) && operands.out[0] != operands.in[0]) return false;
      return results(kernel, operands, {{operands.in[0]}});
    }
    case KernelKind::Delay:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep
