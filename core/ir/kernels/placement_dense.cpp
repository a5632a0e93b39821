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

/// Codes lie as the values do, and so do scales, unless they are given: then they are of what all
/// ranks hold of a tensor, or the same everywhere. Terms of a sum are rounded otherwise than their
/// sum. The largest value of a part is a term of the maximum over the whole.
bool quantize(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0], whole = x == Along::Split || x == Along::Tokens ? Along::Same : x;
  const Along scales = o.in[1] == Along::Nothing ? x : o.in[1];
  const bool fit = fits(o.in[1], whole) || o.in[1] == Along::Same;
  const bool rows = has_values(x) || is_places(x) || is_experts(x) || is_divided(x);
  return rows && fit && results(k, o, {{x, scales, maximum(x)}});
}
/// A maximum is that of terms of which each rank has its own, or all ranks the same.
bool largest(const Kernel& k, AxisOperands& o) {
  Along all = Along::Same;
  for (const Along x : {o.in[0], o.in[1], o.in[2]}) {
    if (x != Along::Same && x != Along::Largest) return false;
    if (x == Along::Largest) all = x;
  }
  return results(k, o, {{all}});
}
/// Of a sum that has not been taken, each rank's term is rounded; what has rows is not sent so.
bool to_codes(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  const bool flat =
      x == Along::Same || x == Along::Flat || x == Along::Split || x == Along::Partial;
  return flat && results(k, o, {{x}});
}
bool from_codes(const Kernel& k, AxisOperands& o) {
  const Along y = o.in[0];
  if (y == Along::Terms) return k.dims[5] > 1 && results(k, o, {{Along::Flat}});
  const bool flat =
      y == Along::Same || y == Along::Flat || y == Along::Split || y == Along::Partial;
  return flat && results(k, o, {{y}});
}
/// Lengths are of whole columns.
bool orthonormalize(AxisOperands& o) { return o.out[0] == Along::Same; }

bool scaled_gemm(const Kernel& k, AxisOperands& o) {
  const auto& [a, b, bias, resid, a_scales, b_scales, rest1, rest2] = o.in;
  const auto fit = [](Along scales, Along codes) {
    return scales == codes || scales == Along::Same;
  };
  if (!fit(a_scales, a) || !fit(b_scales, b)) return false;
  if (k.dims[7] > 0) {
    if (resid != Along::Nothing) return false;
    return k.dims[6] == 0 ? expert_product(k, o, a, b, bias)
                          : bias == Along::Nothing && expert_gradient(k, o, a, b);
  }
  const Along c = k.dims[6] == 0 ? product(a, b) : weight_gradient(a, b);
  if (c == Along::Partial ? bias != Along::Nothing : !fits_columns(bias, c)) return false;
  return fits(resid, c) && results(k, o, {{c}});
}

/// Whether attention may read these. Queries may be a part of a sequence's tokens only if the keys
/// and values of the whole sequence are given beside them, or come by, and the places where its
/// parts begin.
bool attention_reads(Along qkv, Along kv, Along starts) {
  if (qkv == Along::SplitSame) return fits(kv, Along::Same);
  if (!has_values(qkv)) return false;
  if (qkv != Along::Tokens) return fits(kv, qkv);
  return (kv == Along::Same || times_passed(kv) >= 0) && starts != Along::Nothing;
}
/// Whether the places where documents begin are absent, or those of the queries.
bool fits_documents(Along documents, Along qkv) {
  return fits(documents, is_rows(qkv) ? qkv : Along::Same);
}
/// Whether what dropout draws from is absent, or that of the queries and their heads.
bool fits_dropout(Along dropout, Along qkv) {
  return fits(dropout, qkv == Along::SplitSame ? Along::Split : qkv);
}
/// Whether each rank's queries meet the keys of the ranks one after the other.
bool meets_passed_keys(Along qkv, Along kv) {
  return qkv == Along::Tokens && times_passed(kv) >= 0;
}
/// The results of queries that meet the keys of one rank more: first their own, then those of the
/// rank before, and so on; Nothing if it is not that rank's turn. `out` has what they have met.
Along one_more(const Kernel& k, const AxisOperands& o, Along kv, Along out) {
  const int met = times_passed(kv);
  const bool in_turn = k.accumulate ? met > 0 && out == attended(met, o.ranks) : met == 0;
  return in_turn ? attended(met + 1, o.ranks) : Along::Nothing;
}

bool attention_forward(const Kernel& k, AxisOperands& o) {
  const Along qkv = o.in[0], kv = o.in[1];
  if (!attention_reads(qkv, kv, o.in[2]) || !fits_documents(o.in[3], qkv)) return false;
  if (!fits_dropout(o.in[4], qkv)) return false;
  if (meets_passed_keys(qkv, kv)) {
    const Along result = one_more(k, o, kv, o.out[0]), lse = one_more(k, o, kv, o.out[1]);
    o.out[0] = result;
    o.out[1] = lse;
    return result != Along::Nothing && lse == result;
  }
  const Along made = qkv == Along::SplitSame ? Along::Split : qkv;
  return results(k, o, {{made, made}});
}
bool attention_backward(const Kernel& k, AxisOperands& o) {
  const Along qkv = o.in[0];
  const bool shares_keys = qkv == Along::SplitSame;  // with ranks that have other queries
  for (const std::size_t i : {1, 2, 3}) {
    if (o.in[i] != (shares_keys ? Along::Split : qkv)) return false;
  }
  const Along kv = o.in[4];
  if (!attention_reads(qkv, kv, o.in[5]) || !fits_documents(o.in[6], qkv)) return false;
  if (!fits_dropout(o.in[7], qkv)) return false;
  if (meets_passed_keys(qkv, kv)) {
    o.out = {one_more(k, o, kv, o.out[0]), kv};
    return o.out[0] != Along::Nothing;
  }
  const Along d_qkv = shares_keys ? Along::SplitPartial : qkv;
  const Along keys = shares_keys || qkv == Along::Tokens ? Along::Partial : qkv;
  return results(k, o, {{d_qkv, keys}});
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

/// Heads are whole wherever they are, so that ranks may divide them; what is shared stays shared.
/// Every rank has a term of the gradient of weights that all its heads share.
bool head_norm(const Kernel& k, AxisOperands& o) {
  const bool forward = k.kind == KernelKind::HeadNormForward;
  const Along x = o.in[forward ? 0 : 1];
  const bool shares_keys = x == Along::SplitSame;
  if (!has_values(x) && !shares_keys) return false;
  const bool same_weights = forward ? o.in[1] == Along::Same && o.in[2] == Along::Same
                                    : o.in[2] == Along::Same && o.in[3] == Along::Same;
  if (forward) return same_weights && results(k, o, {{x, x}});
  const Along dy = shares_keys ? Along::SplitPartial : x;
  if (o.in[0] != dy) return false;
  if (k.kind == KernelKind::HeadNormBackwardInput) {
    return same_weights && o.in[4] == x && results(k, o, {{dy}});
  }
  const Along dw = x == Along::Same ? Along::Same : Along::Partial;
  return o.in[2] == x && results(k, o, {{dw, dw}});
}

/// These functions work element by element, and are not linear.
bool pointwise(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return (has_values(x) || is_places(x) || is_experts(x) || x == Along::SplitPlaces) &&
         fits(o.in[1], x) && results(k, o, {{x}});
}

/// Rows are rotated by their positions in the sequence, which must be given if the rows are a part
/// of it. Terms of a sum are rotated as their sum is.
bool rope(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  const bool shares_keys = x == Along::SplitSame || x == Along::SplitPartial;
  if ((!has_values(x) && !shares_keys) || (x == Along::Tokens && o.in[1] == Along::Nothing))
    return false;
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
    y = in_places(table);
    if (!is_places(y)) return false;
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
    if (!is_places(dy)) return false;
    table = of_places(dy);
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
  if (!fits(o.in[2], Along::Same)) return false;
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
  if (!fits(o.in[4], Along::Same)) return false;
  const Along loss = logits == Along::Split ? Along::Same : sum_over_rows(logits);
  return results(k, o, {{logits, loss}});
}

/// A sum is linear: terms may be added to terms, but not to what is whole on every rank.
bool add(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0], bias = o.in[2];
  if (!fits(o.in[1], x)) return false;
  if (x == Along::Partial ? bias != Along::Nothing : !fits_columns(bias, x)) return false;
  return results(k, o, {{x}});
}

/// Rows whose keys a rank has. Columns are counted from the first of all ranks, so that a rank with
/// a part of them has to say which. What is dropped does not depend on the values: of terms of a
/// sum it is the same.
bool dropout(const Kernel& k, AxisOperands& o) {
  const auto& [x, keys, resid, bias, part, rest1, rest2, rest3] = o.in;
  const bool shares_rows = x == Along::Split || x == Along::Partial;
  if ((x != Along::Same && !is_rows(x) && !shares_rows) ||
      keys != (shares_rows ? Along::Same : x)) {
    return false;
  }
  if (x == Along::Split ? part != Along::Split : !fits(part, Along::Same)) return false;
  if (x == Along::Partial ? bias != Along::Nothing : !fits_columns(bias, x)) return false;
  return fits(resid, x) && results(k, o, {{x}});
}

/// A multiple of a term is a term of the multiple.
bool scale(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  const bool rows = has_values(x) || is_places(x) || is_experts(x);
  return (rows || x == Along::Partial) && results(k, o, {{x}});
}

/// Queries beside keys. Keys that several ranks share are the same on all of them, and their
/// gradients are terms of a sum.
bool join_columns(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0], z = o.in[1];
  if (x == Along::Split && z == Along::Same) return results(k, o, {{Along::SplitSame}});
  return x == z && (has_values(x) || x == Along::Partial) && results(k, o, {{x}});
}
bool part_columns(const Kernel& k, AxisOperands& o) {
  const Along y = o.in[0];
  if (y == Along::SplitSame) return results(k, o, {{Along::Split, Along::Same}});
  if (y == Along::SplitPartial) return results(k, o, {{Along::Split, Along::Partial}});
  return (has_values(y) || y == Along::Partial) && results(k, o, {{y, y}});
}
/// Heads are whole wherever they are, so that ranks may divide them. What all heads share is then
/// the same on every rank, and its gradient a term of a sum.
bool join_latent(const Kernel& k, AxisOperands& o) {
  const Along q = o.in[0], shared = q == Along::Split ? Along::Same : q;
  return has_values(q) && o.in[1] == q && o.in[2] == shared && results(k, o, {{q}});
}
bool part_latent(const Kernel& k, AxisOperands& o) {
  const Along qkv = o.in[0];
  const Along shared = qkv == Along::Split ? Along::Partial : qkv;
  return has_values(qkv) && results(k, o, {{qkv, qkv, shared}});
}
/// Of queries beside keys that are shared, the keys alone may be taken from behind the queries, or
/// put back there. Zeros that stay beside what is put back fit every placement.
bool regroup(const Kernel& k, AxisOperands& o) {
  const bool keys_alone = k.dims[1] == 1 && k.dims[6] > 0, back = k.dims[5] != 0;
  const Along x = o.in[0];
  if (keys_alone && !back && x == Along::SplitSame) return results(k, o, {{Along::Same}});
  if (keys_alone && back && x == Along::Partial && o.out[0] == Along::SplitPartial) return true;
  if (x == Along::SplitSame || x == Along::SplitPartial) return false;
  if (output_is_read(k, 0) && o.out[0] != x && o.out[0] != Along::Zero) return false;
  return results(k, o, {{x}});
}

}  // namespace

bool place_dense(const Kernel& kernel, AxisOperands& operands) {
  switch (kernel.kind) {
    case KernelKind::Gemm:
      return gemm(kernel, operands);
    case KernelKind::Quantize:
      return quantize(kernel, operands);
    case KernelKind::ScaledGemm:
      return scaled_gemm(kernel, operands);
    case KernelKind::ToCodes:
      return to_codes(kernel, operands);
    case KernelKind::FromCodes:
      return from_codes(kernel, operands);
    case KernelKind::Orthonormalize:
      return orthonormalize(operands);
    case KernelKind::Largest:
      return largest(kernel, operands);
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
    case KernelKind::HeadNormForward:
    case KernelKind::HeadNormBackwardInput:
    case KernelKind::HeadNormBackwardWeight:
      return head_norm(kernel, operands);
    case KernelKind::GeluForward:
    case KernelKind::GeluBackward:
    case KernelKind::SquaredReluForward:
    case KernelKind::SquaredReluBackward:
    case KernelKind::SoftcapForward:
    case KernelKind::SoftcapBackward:
    case KernelKind::ReluForward:
    case KernelKind::ReluBackward:
    case KernelKind::SwigluForward:
    case KernelKind::SwigluBackward:
    case KernelKind::GegluForward:
    case KernelKind::GegluBackward:
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
    case KernelKind::Dropout:
      return dropout(kernel, operands);
    case KernelKind::Scale:
      return scale(kernel, operands);
    case KernelKind::Regroup:
      return regroup(kernel, operands);
    case KernelKind::JoinColumns:
      return join_columns(kernel, operands);
    case KernelKind::PartColumns:
      return part_columns(kernel, operands);
    case KernelKind::JoinLatent:
      return join_latent(kernel, operands);
    case KernelKind::PartLatent:
      return part_latent(kernel, operands);
    case KernelKind::Delay:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep
