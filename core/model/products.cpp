#include "core/model/products.hpp"

#include <algorithm>

namespace lockstep {

void LinearProducts::forward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId x,
                             TensorId w, TensorId bias, TensorId residual, TensorId y,
                             bool keeps_x) {
  if (!float8_.active()) return f_.linear_forward(rows, in, out, x, w, bias, residual, y);
  const Codes& a = rounded(Part::Forward, activation(x, rows, in), false);
  if (keeps_x) keep(rows, in, x);
  const Codes& b = rounded(Part::Forward, weight(w, out, in), false);
  multiply(Part::Forward, rows, out, in, false, a, b, bias, residual, y);
}

void LinearProducts::keep(std::int64_t rows, std::int64_t in, TensorId x) {
  if (float8_.active() && trained_) rounded(Part::Forward, activation(x, rows, in), true);
}

void LinearProducts::input_gradient(std::int64_t rows, std::int64_t in, std::int64_t out,
                                    TensorId dy, TensorId w, TensorId residual, TensorId dx) {
  if (!float8_.active()) {
    return f_.emit(Part::InputGrad, KernelKind::Gemm,
                   {{rows, in, out, 0, 0}, {}, {dy, w, {}, residual}, {dx}});
  }
  const Codes& a = rounded(Part::InputGrad, gradient(dy, rows, out), false);
  const Codes& b = rounded(Part::InputGrad, weight(w, out, in), true);
  multiply(Part::InputGrad, rows, in, out, false, a, b, {}, residual, dx);
}

void LinearProducts::weight_gradient(std::int64_t rows, std::int64_t in, std::int64_t out,
                                     TensorId dy, TensorId x, TensorId dw) {
  if (!dw.valid()) return keep_largest();
  if (!float8_.active()) {
    return f_.emit(Part::WeightGrad, KernelKind::Gemm,
                   {{out, in, rows, 1, 0}, {}, {dy, x, {}, {}}, {dw}});
  }
  const Codes& a = rounded(Part::WeightGrad, gradient(dy, rows, out), true);
  const Codes& b = rounded(Part::WeightGrad, activation(x, rows, in, "x_again"), true);
  multiply(Part::WeightGrad, out, in, rows, true, a, b, {}, {}, dw);
  keep_largest();
}

/// The backward pass rounds the transpose of every factor of weights that are trained, also where
/// forward is repeated.
bool LinearProducts::measures(const Factor& factor, bool transposed) const {
  const bool is_weight = factor.place == 1;
  return float8_.delayed() && (trained_ || is_weight ? transposed : !transposed);
}

void LinearProducts::keep_largest() {
  if (!float8_.delayed()) return;
  f_.emit(Part::WeightGrad, KernelKind::Largest,
          {{}, {}, {found_.begin(), found_.end()}, {largest_}});
}

const LinearProducts::Codes& LinearProducts::rounded(Part part, const Factor& factor,
                                                     bool transposed) {
  const auto [known, fresh] = known_.try_emplace({factor.x.v, transposed});
  Codes& codes = known->second;
  if (!fresh) return codes;
  const std::int64_t lines = transposed ? factor.cols : factor.rows;
  const std::int64_t length = transposed ? factor.rows : factor.cols;
  const bool whole = float8_.block == 0;
  codes.across = whole ? lines : factor.across;
  codes.along = whole ? length : float8_.block;
  codes.mantissa = factor.mantissa;
  // In the other direction a whole tensor has the same scale.
  TensorId given, largest;
  if (float8_.delayed()) {
    given = f_.element(known_scales_, factor.place);
    if (measures(factor, transposed)) {
      largest = found_[to_size(factor.place)] = f_.tensor(1, scales_);
    }
  } else if (whole) {
    const auto other = known_.find({factor.x.v, !transposed});
    given = other != known_.end() ? other->second.scales : gathered_scales(part, factor);
  }
  codes.values = f_.tensor(lines * length, DType::U8);
  codes.scales = f_.tensor(ceil_div(lines, codes.across) * ceil_div(length, codes.along), scales_);
  f_.emit(part, KernelKind::Quantize,
          {{factor.rows, factor.cols, transposed, codes.across, codes.along,
            given.valid() ? f_.elements(given) : 0},
           {static_cast<double>(factor.mantissa)},
           {factor.x, given},
           {codes.values, codes.scales, largest}});
  return codes;
}

TensorId LinearProducts::gathered_scales(Part part, const Factor& factor) {
  const bool divided = std::any_of(factor.dividers.begin(), factor.dividers.end(),
                                   [](const Divider& divider) { return divider.ranks > 1; });
  const std::string name = name_ + "." + factor.name + ".scale";
  TensorId scales = f_.tensor(1, scales_, divided ? name : "");
  f_.emit(part, KernelKind::Quantize,
          {{factor.rows, factor.cols, 0, factor.rows, factor.cols, 0},
           {static_cast<double>(factor.mantissa)},
           {factor.x, {}},
           {{}, scales}});
  for (const Divider& divider : factor.dividers) {
    if (divider.ranks == 1) continue;
    const TensorId all =
        f_.tensor(f_.elements(scales) * divider.ranks, scales_, name + "s." + divider.axis);
    f_.communicate(part, OpKind::AllGather, divider.axis, scales, all);
    scales = all;
  }
  return scales;
}

void LinearProducts::multiply(Part part, std::int64_t m, std::int64_t n, std::int64_t k,
                              bool by_rows, const Codes& a, const Codes& b, TensorId bias,
                              TensorId residual, TensorId c) {
  f_.emit(part, KernelKind::ScaledGemm,
          {{m, n, k, a.across, b.across, a.along, by_rows},
           {static_cast<double>(a.mantissa), static_cast<double>(b.mantissa)},
           {a.values, b.values, bias, residual, a.scales, b.scales},
           {c}});
}

}  // namespace lockstep
