#include "core/model/tensor_parallel.hpp"

namespace lockstep {

TensorId TensorParallel::all_rows(Part part, TensorId x, std::int64_t width,
                                  const std::string& name) {
  if (!gathers_rows()) return x;
  const TensorId all = f_.tensor(rows() * width, name);
  for (int c = 0; c < chunks(); ++c) {
    f_.communicate(part, OpKind::AllGather, "tp", chunk(x, c), chunk(all, c));
  }
  return all;
}

TensorId TensorParallel::partial(TensorId result, std::int64_t width, const std::string& name) {
  return gathers_rows() ? f_.tensor(rows() * width, name) : result;
}

void TensorParallel::sum(Part part, TensorId partial, TensorId result) {
  for (int c = 0; c < chunks(); ++c) sum_chunk(part, partial, result, c);
}

void TensorParallel::sum_chunk(Part part, TensorId partial, TensorId result, int c) {
  if (shape_.tensor_parallel > 1) {
    f_.communicate(part, gathers_rows() ? OpKind::ReduceScatter : OpKind::AllReduce, "tp",
                   chunk(partial, c), chunk(result, c));
  }
  if (stages_ > 1 && c + 1 == chunks()) {
    f_.communicate(part, OpKind::AllReduce, "pp", result, result);
  }
}

Adapter::Adapter(FunctionBuilder& f, double scale, std::int64_t rows, std::int64_t in,
                 const AdapterTensors& weights)
    : f_(f),
      scale_(scale),
      rows_(rows),
      in_(in),
      rank_(weights.a.valid() ? f.elements(weights.a) / in : 0),
      weights_(weights) {}

void Adapter::drop(double share, DropoutPlace place, DropoutOf of, bool again) {
  if (!active() || share <= 0) return;
  dropout_.emplace(f_, share, place, rows_, in_, of);
  again_ = again;
}

void Adapter::forward(TensorId x) {
  if (!active()) return;
  if (dropout_) {
    x = dropout_->dropped(Part::Forward, x);
    if (!again_) dropped_ = x;
  }
  const TensorId made = f_.tensor(rows_ * rank_);
  f_.linear_forward(rows_, in_, rank_, x, weights_.a, {}, {}, made);
  z_ = f_.tensor(rows_ * rank_);
  f_.emit(Part::Forward, KernelKind::Scale, {{rows_ * rank_}, {scale_}, {made}, {z_}});
}

void Adapter::add_to(TensorId y, std::int64_t out, TensorId b, int chunk, int chunks) {
  if (!active()) return;
  f_.emit(
      Part::Forward, KernelKind::Gemm,
      {{rows_ / chunks, out, rank_, 0, 1}, {}, {f_.part(z_, chunk, chunks), b, {}, {}}, {y}, true});
}

void Adapter::backward(TensorId dy, std::int64_t out, TensorId b, TensorId gb) {
  if (!active()) return;
  const bool first = !dz_.valid();
  if (first) dz_ = f_.tensor(rows_ * rank_);
  f_.emit(Part::InputGrad, KernelKind::Gemm,
          {{rows_, rank_, out, 0, 0}, {}, {dy, b, {}, {}}, {dz_}, !first});
  f_.linear_backward(rows_, rank_, out, dy, z_, {}, {}, gb, {});
}

void Adapter::add_input_gradient(TensorId dx, int chunk, int chunks) {
  if (!active()) return;
  if (chunk == 0) {
    dz_scaled_ = f_.tensor(rows_ * rank_);
    f_.emit(Part::InputGrad, KernelKind::Scale, {{rows_ * rank_}, {scale_}, {dz_}, {dz_scaled_}});
  }
  const std::int64_t rows = rows_ / chunks;
  const TensorId through = dropout_ ? f_.tensor(rows * in_) : dx;
  f_.emit(Part::InputGrad, KernelKind::Gemm,
          {{rows, in_, rank_, 0, 0},
           {},
           {f_.part(dz_scaled_, chunk, chunks), weights_.a, {}, {}},
           {through},
           !dropout_});
  if (dropout_) dropout_->add_backward(Part::InputGrad, through, dx, chunk, chunks);
}

void Adapter::weight_gradient(TensorId x) {
  if (!active()) return;
  if (dropout_) x = again_ ? dropout_->dropped(Part::WeightGrad, x) : dropped_;
  f_.linear_backward(rows_, in_, rank_, dz_scaled_, x, {}, {}, weights_.ga, {});
}

/// An adapter's own product is of all rows, because it is small: it runs behind the others.
void ColumnLinear::forward(TensorId x, TensorId y) {
  x_ = x;
  const TensorId all = tp_.all_rows(Part::Forward, x, in_, name_ + ".x");
  const std::int64_t rows = tp_.rows(), chunk_rows = rows / tp_.chunks();
  const TensorId first = more_ == 0 ? y : f_.tensor(rows * out_);
  const TensorId rest = more_ == 0 ? TensorId{} : f_.tensor(rows * more_);
  const bool keeps_x = !tp_.gathers_rows();
  const auto multiply = [&](int c, std::int64_t out, const LinearTensors& weights, TensorId to) {
    products_.forward(chunk_rows, in_, out, tp_.chunk(all, c), weights.w, weights.b, {},
                      tp_.chunk(to, c), keeps_x);
  };
  for (int c = 0; c < tp_.chunks(); ++c) {
    multiply(c, out_, weights_, first);
    if (c + 1 == tp_.chunks()) {
      adapter_.forward(all);
      adapter_.add_to(first, out_, weights_.adapter.b);
    }
    if (more_ > 0) multiply(c, more_, others_, rest);
  }
  if (more_ == 0) return;
  adapter_.add_to(rest, more_, others_.adapter.b);
  f_.emit(Part::Forward, KernelKind::JoinColumns, {{rows, out_, more_}, {}, {first, rest}, {y}});
}

/// The gradient of the weights does not need the sum of dx, and runs beside it unless the framework
/// has it run before. In the same way the gradient of the input runs beside the second gather of x.
void ColumnLinear::backward(TensorId dy, TensorId dx) {
  const TensorId all = tp_.all_rows(Part::WeightGrad, x_, in_, name_ + ".x_again");
  const TensorId partial = tp_.partial(dx, in_, name_ + ".dx");
  const std::int64_t rows = tp_.rows(), chunk_rows = rows / tp_.chunks();
  TensorId first = dy, rest;
  if (more_ > 0) {
    first = f_.tensor(rows * out_);
    rest = f_.tensor(rows * more_);
    f_.emit(Part::InputGrad, KernelKind::PartColumns,
            {{rows, out_, more_}, {}, {dy}, {first, rest}});
  }
  for (int c = 0; c < tp_.chunks(); ++c) {
    TensorId through_rest;
    if (more_ > 0) {
      through_rest = f_.tensor(chunk_rows * in_);
      products_.input_gradient(chunk_rows, in_, more_, tp_.chunk(rest, c), others_.w, {},
                               through_rest);
    }
    products_.input_gradient(chunk_rows, in_, out_, tp_.chunk(first, c), weights_.w, through_rest,
                             tp_.chunk(partial, c));
    if (c == 0) {
      adapter_.backward(first, out_, weights_.adapter.b, weights_.adapter.gb);
      if (more_ > 0) adapter_.backward(rest, more_, others_.adapter.b, others_.adapter.gb);
    }
    adapter_.add_input_gradient(tp_.chunk(partial, c), c, tp_.chunks());
    if (tp_.overlaps_weight_gradients()) tp_.sum_chunk(Part::InputGrad, partial, dx, c);
  }
  adapter_.weight_gradient(all);
  const auto of_weights = [&](std::int64_t out, TensorId d, const LinearTensors& weights) {
    products_.weight_gradient(rows, in_, out, d, all, weights.gw);
    f_.linear_backward(rows, in_, out, d, all, {}, {}, {}, weights.gb);
  };
  of_weights(out_, first, weights_);
  if (more_ > 0) of_weights(more_, rest, others_);
  if (!tp_.overlaps_weight_gradients()) tp_.sum(Part::InputGrad, partial, dx);
}

void RowLinear::forward(TensorId x, TensorId residual, TensorId y) {
  x_ = x;
  adapter_.forward(x);
  if (!tp_.active() && !drops()) return multiply(0, weights_.b, residual, y);
  const bool adds = residual.valid() || weights_.b.valid() || drops();
  const TensorId sum = adds ? f_.tensor(tp_.own_rows() * out_, name_ + ".sum") : y;
  const TensorId partial = tp_.partial(sum, out_, name_ + ".y");
  for (int c = 0; c < tp_.chunks(); ++c) {
    multiply(c, {}, {}, partial);
    tp_.sum_chunk(Part::Forward, partial, sum, c);
  }
  if (!adds) return;
  if (drops()) return dropout_->forward(sum, residual, weights_.b, y);
  f_.emit(Part::Forward, KernelKind::Add,
          {{tp_.own_rows(), out_}, {}, {sum, residual, weights_.b}, {y}});
}

void RowLinear::multiply(int c, TensorId bias, TensorId residual, TensorId y) {
  const TensorId to = tp_.chunk(y, c);
  if (c == 0 && tp_.chunks() > 1) products_.keep(tp_.rows(), in_, x_);
  products_.forward(tp_.rows() / tp_.chunks(), in_, out_, tp_.chunk(x_, c), weights_.w, bias,
                    residual, to, tp_.chunks() == 1);
  adapter_.add_to(to, out_, weights_.adapter.b, c, tp_.chunks());
}

void RowLinear::backward(TensorId dy, TensorId dx) {
  if (drops()) dy = dropout_->backward(Part::InputGrad, dy, name_ + ".dropped");
  const TensorId all = tp_.all_rows(Part::Backward, dy, out_, name_ + ".dy");
  for (int c = 0; c < tp_.chunks(); ++c) {
    products_.input_gradient(tp_.rows() / tp_.chunks(), in_, out_, tp_.chunk(all, c), weights_.w,
                             {}, tp_.chunk(dx, c));
  }
  products_.weight_gradient(tp_.rows(), in_, out_, all, x_, weights_.gw);
  adapter_.backward(all, out_, weights_.adapter.b, weights_.adapter.gb);
  adapter_.add_input_gradient(dx);
  adapter_.weight_gradient(x_);
  if (weights_.gb.valid()) {
    f_.emit(Part::WeightGrad, KernelKind::ColumnSum,
            {{tp_.own_rows(), out_}, {}, {dy}, {weights_.gb}});
  }
}

}  // namespace lockstep
