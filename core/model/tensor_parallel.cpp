#include "core/model/tensor_parallel.hpp"

namespace lockstep {

TensorId TensorParallel::all_rows(Part part, TensorId x, std::int64_t width,
                                  const std::string& name) {
  if (!by_rows()) return x;
  const TensorId all = f_.tensor(rows() * width, name);
  f_.communicate(part, OpKind::AllGather, "tp", x, all);
  return all;
}

TensorId TensorParallel::partial(TensorId result, std::int64_t width, const std::string& name) {
  return by_rows() ? f_.tensor(rows() * width, name) : result;
}

void TensorParallel::sum(Part part, TensorId partial, TensorId result) {
  if (shape_.tensor_parallel > 1) {
    f_.communicate(part, by_rows() ? OpKind::ReduceScatter : OpKind::AllReduce, "tp", partial,
                   result);
  }
  if (stages_ > 1) f_.communicate(part, OpKind::AllReduce, "pp", result, result);
}

void ColumnLinear::forward(TensorId x, TensorId y) {
  x_ = x;
  const TensorId all = tp_.all_rows(Part::Forward, x, in_, name_ + ".x");
  const std::int64_t rows = tp_.rows();
  const TensorId first = more_ == 0 ? y : f_.tensor(rows * out_);
  f_.linear_forward(rows, in_, out_, all, weights_.w, weights_.b, {}, first);
  if (more_ == 0) return;
  const TensorId rest = f_.tensor(rows * more_);
  f_.linear_forward(rows, in_, more_, all, others_.w, others_.b, {}, rest);
  f_.emit(Part::Forward, KernelKind::JoinColumns, {{rows, out_, more_}, {}, {first, rest}, {y}});
}

/// The gradient of the weights does not need the sum of dx, and runs beside it unless the framework
/// has it run before. In the same way the gradient of the input runs beside the second gather of x.
void ColumnLinear::backward(TensorId dy, TensorId dx) {
  const TensorId all = tp_.all_rows(Part::WeightGrad, x_, in_, name_ + ".x_again");
  const TensorId partial = tp_.partial(dx, in_, name_ + ".dx");
  const std::int64_t rows = tp_.rows();
  TensorId first = dy, rest;
  if (more_ > 0) {
    first = f_.tensor(rows * out_);
    rest = f_.tensor(rows * more_);
    f_.emit(Part::InputGrad, KernelKind::PartColumns,
            {{rows, out_, more_}, {}, {dy}, {first, rest}});
    const TensorId through_rest = f_.tensor(rows * in_);
    f_.linear_backward(rows, in_, more_, rest, all, others_.w, through_rest, {}, {});
    f_.emit(Part::InputGrad, KernelKind::Gemm,
            {{rows, in_, out_, 0, 0}, {}, {first, weights_.w, {}, through_rest}, {partial}});
  } else {
    f_.linear_backward(rows, in_, out_, dy, all, weights_.w, partial, {}, {});
  }
  if (tp_.overlaps_weight_gradients()) tp_.sum(Part::InputGrad, partial, dx);
  f_.linear_backward(rows, in_, out_, first, all, weights_.w, {}, weights_.gw, weights_.gb);
  if (more_ > 0) {
    f_.linear_backward(rows, in_, more_, rest, all, others_.w, {}, others_.gw, others_.gb);
  }
  if (!tp_.overlaps_weight_gradients()) tp_.sum(Part::InputGrad, partial, dx);
}

void RowLinear::forward(TensorId x, TensorId residual, TensorId y) {
  x_ = x;
  if (!tp_.active()) {
    return f_.linear_forward(tp_.rows(), in_, out_, x, weights_.w, weights_.b, residual, y);
  }
  if (!residual.valid()) {  // nothing is to be added
    const TensorId partial = tp_.partial(y, out_, name_ + ".y");
    f_.linear_forward(tp_.rows(), in_, out_, x, weights_.w, {}, {}, partial);
    return tp_.sum(Part::Forward, partial, y);
  }
  const TensorId sum = f_.tensor(tp_.own_rows() * out_, name_ + ".sum");
  const TensorId partial = tp_.partial(sum, out_, name_ + ".y");
  f_.linear_forward(tp_.rows(), in_, out_, x, weights_.w, {}, {}, partial);
  tp_.sum(Part::Forward, partial, sum);
  f_.emit(Part::Forward, KernelKind::Add,
          {{tp_.own_rows(), out_}, {}, {sum, residual, weights_.b}, {y}});
}

void RowLinear::backward(TensorId dy, TensorId dx) {
  const TensorId all = tp_.all_rows(Part::Backward, dy, out_, name_ + ".dy");
  f_.linear_backward(tp_.rows(), in_, out_, all, x_, weights_.w, dx, weights_.gw, {});
  if (weights_.gb.valid()) {
    f_.emit(Part::WeightGrad, KernelKind::ColumnSum,
            {{tp_.own_rows(), out_}, {}, {dy}, {weights_.gb}});
  }
}

}  // namespace lockstep
