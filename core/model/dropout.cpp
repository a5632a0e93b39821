#include "core/model/dropout.hpp"

#include <utility>
#include <vector>

namespace lockstep {

Dropout::Dropout(FunctionBuilder& f, double share, DropoutPlace place, std::int64_t rows,
                 std::int64_t cols)
    : f_(f), share_(share), place_(place), rows_(rows), cols_(cols) {
  if (active()) keys_ = f.formal("dropout_keys", rows, DType::I32);
}

void Dropout::forward(TensorId x, TensorId residual, TensorId bias, TensorId y) {
  emit(Part::Forward, {x, keys_, residual, bias}, y);
}

TensorId Dropout::backward(Part part, TensorId dy, const std::string& name) {
  if (!active()) return dy;
  const TensorId dx = f_.tensor(rows_ * cols_, name);
  emit(part, {dy, keys_, {}, {}}, dx);
  return dx;
}

void Dropout::add_backward(Part part, TensorId dy, TensorId dx) {
  emit(part, {dy, keys_, dx, {}}, dx);
}

void Dropout::emit(Part part, std::vector<TensorId> in, TensorId y) {
  f_.emit(part, KernelKind::Dropout,
          {{rows_, cols_}, {share_, static_cast<double>(place_)}, std::move(in), {y}});
}

}  // namespace lockstep
