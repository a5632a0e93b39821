#include "core/model/dropout.hpp"

#include <utility>
#include <vector>

namespace lockstep {

Dropout::Dropout(FunctionBuilder& f, double share, DropoutPlace place, std::int64_t rows,
                 std::int64_t cols, DropoutOf of)
    : f_(f), share_(share), place_(place), rows_(rows), cols_(cols) {
  if (!active()) return;
  keys_ = f.formal(of.all_rows ? "all_dropout_keys" : "dropout_keys", rows, DType::I32);
  if (of.part) part_ = f.formal("part", 1, DType::I32);
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

TensorId Dropout::dropped(Part part, TensorId x) {
  const TensorId y = f_.tensor(rows_ * cols_);
  emit(part, {x, keys_, {}, {}}, y);
  return y;
}

void Dropout::add_backward(Part part, TensorId dy, TensorId dx, int chunk, int chunks) {
  emit(part, {dy, f_.part(keys_, chunk, chunks), dx, {}}, dx, chunks);
}

void Dropout::emit(Part part, std::vector<TensorId> in, TensorId y, int chunks) {
  if (part_.valid()) in.push_back(part_);
  f_.emit(part, KernelKind::Dropout,
          {{rows_ / chunks, cols_}, {share_, static_cast<double>(place_)}, std::move(in), {y}});
}

}  // namespace lockstep
