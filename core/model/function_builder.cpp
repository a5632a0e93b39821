#include "core/model/function_builder.hpp"

#include <algorithm>

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

void FunctionBuilder::keep(std::int64_t bytes, TensorId beside) {
  if (bytes <= 0) return;
  tensor(bytes, DType::U8);
  tensors_.back().beside = beside;
}

void FunctionBuilder::touch(Part part, TensorId id, bool write) {
  if (!id.valid()) return;
  TensorInfo& tensor = tensors_[id];
  if (write) tensor.produced_in |= bits(part) & ~tensor.used_in;
  tensor.used_in |= bits(part);
}

void FunctionBuilder::emit(Part part, KernelKind kind, Call call) {
  for (TensorId t : call.in) touch(part, t, false);
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const bool adds = call.accumulate && info(kind).out[i].effect == Effect::Accumulate;
    touch(part, call.out[i], !adds);
  }
  emitted_.push_back({part, kind, std::move(call), {}});
}

void FunctionBuilder::communicate(Part part, OpKind kind, std::string axis, TensorId in,
                                  TensorId out) {
  touch(part, in, false);
  touch(part, out, true);
  for (TensorId t : {in, out}) tensors_[t].communicated = true;
  emitted_.push_back({part, {}, {{}, {}, {in}, {out}}, std::move(axis), kind});
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

void FunctionBuilder::recompute(const Recompute& what, bool to_end) {
  recomputes_to_end_ = to_end && what.everything;
  const auto wanted = [&what](KernelKind kind) {
    switch (kind) {
      case KernelKind::LayerNormForward:
      case KernelKind::RmsNormForward:
      case KernelKind::HeadNormForward:
        return what.norms;
      case KernelKind::GeluForward:
      case KernelKind::SwigluForward:
        return what.activations;
      case KernelKind::AttentionForward:
        return what.attention;
      default:
        return false;
    }
  };
  for (const Emitted& emitted : emitted_) {
    if (emitted.part != Part::Forward) continue;
    const bool drops = what.everything || (emitted.axis.empty() && wanted(emitted.kind));
    for (TensorId t : emitted.call.out) {
      if (t.valid()) tensors_[t].dropped |= drops;
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
