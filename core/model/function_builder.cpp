#include "core/model/function_builder.hpp"

#include <algorithm>
#include <array>

#include "core/base/free_list.hpp"

namespace lockstep {
namespace {

constexpr unsigned bit(Part part) { return static_cast<unsigned>(part); }

// Formals stand in this order in every function, so that programs read alike.
constexpr std::array<std::string_view, 14> kFormalOrder = {
    "w",     "w_tied", "tokens", "targets", "x",  "dy",      "saved",
    "stash", "y",      "dx",     "loss",    "gw", "gw_tied", "ws"};

std::size_t formal_rank(std::string_view name) {
  return static_cast<std::size_t>(std::find(kFormalOrder.begin(), kFormalOrder.end(), name) -
                                  kFormalOrder.begin());
}

}  // namespace

FunctionBuilder::FunctionBuilder(std::string layer_name, DType dtype)
    : layer_name_(std::move(layer_name)), dtype_(dtype) {}

TensorId FunctionBuilder::inside(std::string_view formal, std::int64_t offset,
                                 std::int64_t elements, std::int64_t formal_elements) {
  tensors_.push_back({std::string(formal), dtype_, elements, offset, formal_elements, 0});
  return {static_cast<int>(tensors_.size()) - 1};
}
TensorId FunctionBuilder::formal(std::string_view name, std::int64_t elements, DType dtype) {
  tensors_.push_back({std::string(name), dtype, elements, 0, elements, 0});
  return {static_cast<int>(tensors_.size()) - 1};
}
TensorId FunctionBuilder::formal(std::string_view name, std::int64_t elements) {
  return formal(name, elements, dtype_);
}
TensorId FunctionBuilder::tensor(std::int64_t elements) {
  tensors_.push_back({"", dtype_, elements, 0, elements, 0});
  return {static_cast<int>(tensors_.size()) - 1};
}

void FunctionBuilder::emit(Part part, KernelKind kind, Call call) {
  for (const auto* list : {&call.in, &call.out}) {
    for (TensorId t : *list) {
      if (t.valid()) tensors_[static_cast<std::size_t>(t.v)].used_in |= bit(part);
    }
  }
  kernels_.push_back({part, kind, std::move(call)});
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
  emit(Part::WeightGrad, KernelKind::Gemm, {{out, in, rows, 1, 0}, {}, {dy, x, {}, {}}, {dw}});
  if (dbias.valid()) {
    emit(Part::WeightGrad, KernelKind::ColumnSum, {{rows, out}, {}, {dy}, {dbias}});
  }
}

void FunctionBuilder::set_padding(std::string_view formal, std::int64_t first,
                                  std::int64_t elements) {
  if (elements > 0) padding_.push_back(inside(formal, first, elements, first + elements));
}

Function FunctionBuilder::forward() const {
  return build(layer_name_ + ".F", bit(Part::Forward), false, {});
}
Function FunctionBuilder::backward(Part part, const std::vector<std::string>& accumulate) const {
  return build(layer_name_ + (part == Part::InputGrad ? ".I" : ".W"), bit(part), true, accumulate);
}
Function FunctionBuilder::backward(const std::vector<std::string>& accumulate) const {
  return build(layer_name_ + ".B", bit(Part::InputGrad) | bit(Part::WeightGrad), false, accumulate);
}

Function FunctionBuilder::build(std::string name, unsigned parts, bool split,
                                const std::vector<std::string>& accumulate) const {
  const auto accumulates = [&](const std::string& formal) {
    return std::find(accumulate.begin(), accumulate.end(), formal) != accumulate.end();
  };
  // Homes of the tensors without a formal of their own.
  enum Home { None, Saved, Stash, Scratch };
  constexpr unsigned kBackward = bit(Part::InputGrad) | bit(Part::WeightGrad);
  std::vector<Home> home(tensors_.size(), None);
  std::vector<std::int64_t> offset(tensors_.size(), 0);  // bytes
  std::int64_t saved_bytes = 0;
  std::int64_t stash_bytes = 0;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const TensorInfo& tensor = tensors_[t];
    if (!tensor.formal.empty()) {
      offset[t] = tensor.offset * size_of(tensor.dtype);
      continue;
    }
    const std::int64_t bytes =
        round_up(tensor.elements * size_of(tensor.dtype), FreeList::kAlignment);
    if ((tensor.used_in & bit(Part::Forward)) && (tensor.used_in & kBackward)) {
      home[t] = Saved;
      offset[t] = saved_bytes;
      saved_bytes += bytes;
    } else if (tensor.used_in == kBackward && split) {
      home[t] = Stash;
      offset[t] = stash_bytes;
      stash_bytes += bytes;
    } else {
      home[t] = Scratch;
    }
  }
  // Scratch is reused between the kernels of this function.
  std::vector<const Emitted*> mine;
  for (const Emitted& kernel : kernels_) {
    if (parts & bit(kernel.part)) mine.push_back(&kernel);
  }
  std::vector<int> first(tensors_.size(), -1);
  std::vector<int> last(tensors_.size(), -1);
  const auto each_tensor = [](const Emitted& kernel, auto&& visit) {
    for (TensorId t : kernel.call.in) {
      if (t.valid()) visit(static_cast<std::size_t>(t.v));
    }
    for (TensorId t : kernel.call.out) {
      if (t.valid()) visit(static_cast<std::size_t>(t.v));
    }
  };
  for (std::size_t k = 0; k < mine.size(); ++k) {
    each_tensor(*mine[k], [&](std::size_t t) {
      if (first[t] < 0) first[t] = static_cast<int>(k);
      last[t] = static_cast<int>(k);
    });
  }
  FreeList scratch;
  for (std::size_t k = 0; k < mine.size(); ++k) {
    const auto bytes = [&](std::size_t t) {
      return tensors_[t].elements * size_of(tensors_[t].dtype);
    };
    each_tensor(*mine[k], [&](std::size_t t) {
      if (home[t] == Scratch && first[t] == static_cast<int>(k)) {
        offset[t] = scratch.allocate(bytes(t));
        first[t] = -2;  // taken: an in-place operand is visited twice
      }
    });
    each_tensor(*mine[k], [&](std::size_t t) {
      if (home[t] == Scratch && last[t] == static_cast<int>(k)) {
        scratch.release(offset[t], bytes(t));
        last[t] = -2;
      }
    });
  }

  Function function;
  function.name = std::move(name);
  std::vector<std::string> added;
  for (const std::string& formal : accumulate) added.push_back(formal);
  if (!added.empty()) {
    function.name += "+";
    for (std::size_t i = 0; i < added.size(); ++i) function.name += (i ? "," : "") + added[i];
  }
  // Formals in use, with what this function does to them.
  struct Use {
    std::string name;
    std::int64_t bytes = 0;
    bool reads = false;
    bool writes = false;
  };
  std::vector<Use> uses;
  const auto use_of = [&](std::size_t t) -> Use& {
    static constexpr std::array<const char*, 4> kHomes = {"", "saved", "stash", "ws"};
    const std::string formal = home[t] == None ? tensors_[t].formal : kHomes[home[t]];
    const auto found =
        std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.name == formal; });
    if (found != uses.end()) return *found;
    Use use;
    use.name = formal;
    use.bytes = home[t] == Saved     ? saved_bytes
                : home[t] == Stash   ? stash_bytes
                : home[t] == Scratch ? scratch.high_water()
                                     : tensors_[t].formal_elements * size_of(tensors_[t].dtype);
    uses.push_back(use);
    return uses.back();
  };
  std::vector<Kernel> kernels;
  std::vector<std::pair<std::vector<TensorId>, std::vector<TensorId>>> operands;
  for (const Emitted* emitted : mine) {
    Kernel kernel;
    kernel.kind = emitted->kind;
    kernel.dtype = dtype_;
    std::copy(emitted->call.dims.begin(), emitted->call.dims.end(), kernel.dims.begin());
    std::copy(emitted->call.scalars.begin(), emitted->call.scalars.end(), kernel.scalars.begin());
    if (emitted->part == Part::WeightGrad && !emitted->call.out.empty()) {
      const TensorId out = emitted->call.out.front();
      kernel.accumulate =
          out.valid() && accumulates(tensors_[static_cast<std::size_t>(out.v)].formal);
    }
    kernels.push_back(kernel);
    operands.emplace_back(emitted->call.in, emitted->call.out);
  }
  if (parts & bit(Part::WeightGrad)) {
    for (TensorId pad : padding_) {
      const TensorInfo& tensor = tensors_[static_cast<std::size_t>(pad.v)];
      if (accumulates(tensor.formal)) continue;
      Kernel fill;
      fill.kind = KernelKind::Fill;
      fill.dtype = dtype_;
      fill.dims[0] = tensor.elements;
      kernels.push_back(fill);
      operands.emplace_back(std::vector<TensorId>{}, std::vector<TensorId>{pad});
    }
  }
  std::vector<bool> written(tensors_.size(), false);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    for (TensorId t : operands[k].first) {
      if (!t.valid()) continue;
      Use& use = use_of(static_cast<std::size_t>(t.v));
      use.reads |= !written[static_cast<std::size_t>(t.v)];
    }
    for (TensorId t : operands[k].second) {
      if (!t.valid()) continue;
      Use& use = use_of(static_cast<std::size_t>(t.v));
      use.writes = true;
      use.reads |= kernels[k].accumulate && !written[static_cast<std::size_t>(t.v)];
      written[static_cast<std::size_t>(t.v)] = true;
    }
  }
  std::sort(uses.begin(), uses.end(),
            [](const Use& a, const Use& b) { return formal_rank(a.name) < formal_rank(b.name); });
  for (const Use& use : uses) {
    function.formals.push_back(
        {use.name, use.writes ? (use.reads ? Access::ReadWrite : Access::Write) : Access::Read,
         Bytes{use.bytes}});
  }
  const auto operand = [&](TensorId id) -> Operand {
    if (!id.valid()) return {};
    const std::size_t t = static_cast<std::size_t>(id.v);
    const std::string& formal = use_of(t).name;
    const auto found = std::find_if(function.formals.begin(), function.formals.end(),
                                    [&](const Formal& f) { return f.name == formal; });
    return {static_cast<std::int16_t>(found - function.formals.begin()), tensors_[t].dtype,
            offset[t]};
  };
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].kind == KernelKind::Delay) {  // no operands: its formals say what it touches
      operands[k] = {};
    }
    for (TensorId t : operands[k].first) kernels[k].in.push_back(operand(t));
    for (TensorId t : operands[k].second) kernels[k].out.push_back(operand(t));
    function.kernels.push_back(std::move(kernels[k]));
  }
  return function;
}

}  // namespace lockstep
