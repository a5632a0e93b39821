#include "core/model/function_builder.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {
FunctionBuilder::FunctionBuilder(std::string layer_name, DType dtype, DType gradient_dtype)
    : layer_name_(std::move(layer_name)), dtype_(dtype), gradient_dtype_(gradient_dtype) {}

TensorId FunctionBuilder::inside(std::string_view formal, std::int64_t offset,
                                 std::int64_t elements, std::int64_t formal_elements) {
  return inside(formal, offset, elements, formal_elements,
                formal.starts_with("gw") ? gradient_dtype_ : dtype_);
}
TensorId FunctionBuilder::inside(std::string_view formal, std::int64_t offset,
                                 std::int64_t elements, std::int64_t formal_elements, DType dtype) {
  TensorInfo tensor;
  tensor.formal = formal;
  tensor.dtype = dtype;
  tensor.elements = elements;
  tensor.offset = offset;
  tensor.formal_elements = formal_elements;
  tensors_.push_back(std::move(tensor));
  return {static_cast<int>(tensors_.size()) - 1};
}
TensorId FunctionBuilder::element(TensorId tensor, std::int64_t index) {
  const TensorInfo whole = tensors_[tensor];
  return inside(whole.formal, whole.offset + index, 1, whole.formal_elements, whole.dtype);
}
std::int64_t FunctionBuilder::elements_of(std::string_view name) const {
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.formal == name) return tensor.formal_elements;
  }
  return 0;
}

TensorId FunctionBuilder::formal(std::string_view name, std::int64_t elements, DType dtype) {
  return inside(name, 0, elements, elements, dtype);
}
TensorId FunctionBuilder::formal(std::string_view name, std::int64_t elements) {
  return formal(name, elements, dtype_);
}
TensorId FunctionBuilder::tensor(std::int64_t elements, std::string name) {
  return tensor(elements, dtype_, std::move(name));
}
TensorId FunctionBuilder::tensor(std::int64_t elements, DType dtype, std::string name) {
  const TensorId id = inside("", 0, elements, elements, dtype);
  tensors_.back().name = std::move(name);
  return id;
}

TensorId FunctionBuilder::part(TensorId whole, int index, int count) {
  if (count == 1) return whole;
  if (tensors_[whole].parts.empty()) {
    TensorInfo part;
    part.dtype = tensors_[whole].dtype;
    part.elements = part.formal_elements = tensors_[whole].elements / count;
    part.whole = whole;
    for (part.index = 0; part.index < count; ++part.index) {
      tensors_[whole].parts.push_back({static_cast<int>(tensors_.size())});
      tensors_.push_back(part);
    }
  }
  return tensors_[whole].parts[to_size(index)];
}

void FunctionBuilder::keep(std::int64_t bytes, TensorId beside) {
  if (bytes <= 0) return;
  tensor(bytes, DType::U8);
  tensors_.back().beside = beside;
}

void FunctionBuilder::touch(Part part, TensorId id, bool write) {
  if (!id.valid()) return;
  TensorInfo& tensor = tensors_[whole_of(id)];
  if (write) tensor.produced_in |= bits(part) & ~tensor.used_in;
  tensor.used_in |= bits(part);
}

void FunctionBuilder::emit(Part part, KernelKind kind, Call call) {
  if (!call.out.empty() &&
      std::none_of(call.out.begin(), call.out.end(), [](TensorId t) { return t.valid(); })) {
    return;
  }
  const std::vector<TensorId> given = call.out;
  fill_missing(kind, call);
  for (std::size_t i = 0; i < given.size(); ++i) {  // the kernel may add to its outputs
    if (given[i] == call.out[i]) continue;
    emit(part, KernelKind::Fill, {{tensors_[call.out[i]].elements}, {0.0}, {}, {call.out[i]}});
  }
  for (TensorId t : call.in) touch(part, t, false);
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const bool adds = call.accumulate && info(kind).out[i].effect == Effect::Accumulate;
    touch(part, call.out[i], !adds);
  }
  emitted_.push_back({part, kind, std::move(call), {}, {}, 0, 0, forward_part_, products_});
}

/// Gives outputs that the kernel must have, and that nobody wants, a place in scratch memory.
void FunctionBuilder::fill_missing(KernelKind kind, Call& call) {
  const std::vector<OperandRow>& rows = info(kind).out;
  Kernel kernel;
  kernel.kind = kind;
  std::copy(call.dims.begin(), call.dims.end(), kernel.dims.begin());
  kernel.out.resize(call.out.size(), {0, dtype_, 0});
  for (std::size_t i = 0; i < std::min(rows.size(), call.out.size()); ++i) {  // a delay has no rows
    if (call.out[i].valid() || rows[i].optional) continue;
    const auto other =
        std::find_if(call.out.begin(), call.out.end(), [](TensorId t) { return t.valid(); });
    call.out[i] = tensor(output_elements(kernel, i), tensors_[*other].dtype);
  }
}

void FunctionBuilder::drop_unneeded() {
  IndexVector<TensorId, bool> needed(tensors_.size(), false);
  const auto is_result = [&](TensorId t) {
    const std::string& formal = tensors_[whole_of(t)].formal;
    return !formal.empty() && formal != "x" && formal != "dy";
  };
  std::vector<Emitted> kept;
  for (std::size_t e = emitted_.size(); e-- > 0;) {
    Emitted& emitted = emitted_[e];
    const auto& out = emitted.call.out;
    const bool wanted = out.empty() || std::any_of(out.begin(), out.end(), [&](TensorId t) {
                          return t.valid() && (needed[whole_of(t)] || is_result(t));
                        });
    if (!wanted) continue;
    for (const std::vector<TensorId>* operands :
         {&std::as_const(emitted.call.in), &out}) {  // it may add to its outputs
      for (const TensorId t : *operands) {
        if (t.valid()) needed[whole_of(t)] = true;
      }
    }
    kept.push_back(std::move(emitted));
  }
  emitted_.clear();
  for (TensorInfo& tensor : tensors_) {
    tensor.used_in = tensor.produced_in = 0;
    tensor.communicated = false;
  }
  for (std::size_t e = kept.size(); e-- > 0;) {
    Emitted& emitted = kept[e];
    const Within scope = within(emitted.forward_part, emitted.products);
    if (emitted.axis.empty()) {
      emit(emitted.part, emitted.kind, std::move(emitted.call));
    } else if (is_counted(emitted.collective)) {
      const auto& in = emitted.call.in;
      communicate_rows(emitted.part, emitted.collective, std::move(emitted.axis), in[0],
                       emitted.call.out[0],
                       {{in.begin() + 1, in.end()}, emitted.rows, emitted.width});
    } else {
      communicate(emitted.part, emitted.collective, std::move(emitted.axis), emitted.call.in[0],
                  emitted.call.out[0]);
    }
  }
}

void FunctionBuilder::communicate(Part part, OpKind kind, std::string axis, TensorId in,
                                  TensorId out) {
  touch(part, in, false);
  touch(part, out, true);
  for (TensorId t : {in, out}) tensors_[whole_of(t)].communicated = true;
  emitted_.push_back(
      {part, {}, {{}, {}, {in}, {out}}, std::move(axis), kind, 0, 0, forward_part_, products_});
}

void FunctionBuilder::communicate_rows(Part part, OpKind kind, std::string axis, TensorId in,
                                       TensorId out, const CountedRows& counted) {
  for (TensorId count : counted.counts) {
    touch(part, count, false);
    tensors_[count].communicated = true;
  }
  communicate(part, kind, std::move(axis), in, out);
  Emitted& emitted = emitted_.back();
  emitted.call.in.insert(emitted.call.in.end(), counted.counts.begin(), counted.counts.end());
  emitted.rows = counted.rows;
  emitted.width = counted.width;
}

void FunctionBuilder::linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out,
                                     TensorId x, TensorId w, TensorId bias, TensorId residual,
                                     TensorId y) {
  emit(Part::Forward, KernelKind::Gemm, {{rows, out, in, 0, 1}, {}, {x, w, bias, residual}, {y}});
}

void FunctionBuilder::linear_backward(std::int64_t rows, std::int64_t in, std::int64_t out,
                                      TensorId dy, TensorId x, TensorId w, TensorId dx, TensorId dw,
                                      TensorId dbias) {
  if (dx.valid()) {
    emit(Part::InputGrad, KernelKind::Gemm, {{rows, in, out, 0, 0}, {}, {dy, w, {}, {}}, {dx}});
  }
  if (dw.valid()) {
    emit(Part::WeightGrad, KernelKind::Gemm, {{out, in, rows, 1, 0}, {}, {dy, x, {}, {}}, {dw}});
  }
  if (dbias.valid()) {
    emit(Part::WeightGrad, KernelKind::ColumnSum, {{rows, out}, {}, {dy}, {dbias}});
  }
}

void FunctionBuilder::set_padding(std::string_view formal, std::int64_t first,
                                  std::int64_t elements) {
  if (elements > 0) padding_.push_back(inside(formal, first, elements, first + elements));
}

namespace {

bool exchanges_or_scatters(OpKind kind) {
  return is_exchange(kind) || kind == OpKind::ReduceScatter || kind == OpKind::ReduceScatterRows;
}
bool is_rounding(KernelKind kind) {
  return kind == KernelKind::Quantize || kind == KernelKind::RaggedQuantize;
}
/// Whether it copies what others have, which costs no memory to do again.
bool is_gather(OpKind kind) { return !exchanges_or_scatters(kind) && kind != OpKind::AllReduce; }

}  // namespace

bool FunctionBuilder::drops(const Emitted& emitted, const Recompute& what) const {
  if (!emitted.axis.empty() && what.keeps_exchanges && exchanges_or_scatters(emitted.collective)) {
    return false;
  }
  // The codes that a product reads are not its result.
  const bool rounds = emitted.axis.empty() && is_rounding(emitted.kind);
  return what.parts.has(emitted.forward_part) || (rounds && what.parts.has(ForwardPart::Rest));
}

void FunctionBuilder::recompute(const Recompute& what, bool to_end) {
  to_end_ = to_end ? what.to_end : ForwardParts{};
  Recompute resolved = what;
  if (what.second_products) {
    ForwardParts counted;
    int products = 0;
    for (const Emitted& emitted : emitted_) {
      const ForwardPart part = emitted.forward_part;
      if (!forward_parts::kDenseProducts.has(part) || counted.has(part)) continue;
      counted = counted | ForwardParts{part};
      if (products % 2 == 1) resolved.parts = resolved.parts | ForwardParts{part};
      products += emitted.products;
    }
  }
  IndexVector<TensorId, bool> made(tensors_.size(), false);
  for (const Emitted& emitted : emitted_) {
    if (emitted.part != Part::Forward) continue;
    for (const TensorId t : emitted.call.out) {  // what overwrites a tensor follows who made it
      if (!t.valid() || made[whole_of(t)]) continue;
      tensors_[whole_of(t)].dropped = drops(emitted, resolved);
    }
    for (const TensorId t : emitted.call.out) {
      if (t.valid() && !tensors_[t].whole.valid()) made[t] = true;
    }
  }
  keep_for_recomputation();
}

void FunctionBuilder::keep_for_recomputation() {
  IndexVector<TensorId, bool> needed(tensors_.size(), false);
  const auto from_forward = [&](const TensorInfo& tensor) {
    return tensor.formal.empty() && (tensor.produced_in & bits(Part::Forward)) != 0;
  };
  const auto for_backward = [&](const TensorInfo& tensor) {
    return (tensor.used_in & ~tensor.produced_in & bits(Part::Backward)) != 0;
  };
  for (const TensorId t : tensors_.ids()) {
    const TensorInfo& tensor = tensors_[t];
    needed[t] = from_forward(tensor) && tensor.dropped && for_backward(tensor);
  }
  IndexVector<TensorId, bool> gathered(tensors_.size(), false);
  for (const Emitted& emitted : emitted_) {
    if (emitted.part != Part::Forward || emitted.axis.empty()) continue;
    if (is_gather(emitted.collective)) gathered[whole_of(emitted.call.out[0])] = true;
  }
  for (std::size_t e = emitted_.size(); e-- > 0;) {
    const Emitted& emitted = emitted_[e];
    if (emitted.part != Part::Forward) continue;
    const auto& out = emitted.call.out;
    const bool runs = to_end_.has(emitted.forward_part) ||
                      std::any_of(out.begin(), out.end(),
                                  [&](TensorId t) { return t.valid() && needed[whole_of(t)]; });
    if (!runs) continue;
    for (const TensorId t : emitted.call.in) {
      if (!t.valid()) continue;
      TensorInfo& tensor = tensors_[whole_of(t)];
      if (!from_forward(tensor) || (!tensor.dropped && for_backward(tensor))) continue;
      if (tensor.dropped || gathered[whole_of(t)]) {
        needed[whole_of(t)] = true;
      } else {
        tensor.used_in |= bits(Part::InputGrad);
      }
    }
  }
}

DType FunctionBuilder::dtype_of(std::string_view formal) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) {
    return t.communicated && t.name == formal;
  });
  return found == tensors_.end() ? dtype_ : found->dtype;
}

bool FunctionBuilder::outlives_part(std::string_view formal) const {
  return std::any_of(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) {
    return t.communicated && t.name == formal && (t.used_in & ~t.produced_in) != 0;
  });
}

Work work(const std::vector<LayerStep>& steps) {
  Work total{};
  for (const LayerStep& step : steps) {
    if (const auto* function = std::get_if<Function>(&step)) total = total + work(*function);
  }
  return total;
}

}  // namespace lockstep
