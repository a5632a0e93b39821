#include "core/spec/optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

DType OptimizerSpec::state_type(DType training) const {
  switch (state_dtype) {
    case StateDType::F32:
      return DType::F32;
    case StateDType::BF16:
      return DType::BF16;
    case StateDType::U8:
      return DType::U8;
    case StateDType::Default:
      break;
  }
  return training;
}

double OptimizerSpec::adjustment(std::int64_t rows, std::int64_t cols) const {
  const auto r = static_cast<double>(rows), c = static_cast<double>(cols);
  return adjust_lr_fn == AdjustLr::MatchRmsAdamW ? 0.2 * std::sqrt(std::max(r, c))
                                                 : std::sqrt(std::max(1.0, r / c));
}

double OptimizerSpec::state_bytes(DType training) const {
  const auto element = static_cast<double>(size_of(state_type(training)));
  return element + (state_dtype == StateDType::U8 ? 4.0 / block_size : 0);
}

std::string optimizers_that_read(std::string_view key) {
  std::string names;
  for (const OptimizerRow& row : kOptimizers) {
    if (row.reads(key)) names += (names.empty() ? "" : " or ") + std::string(row.name);
  }
  return names;
}

}  // namespace lockstep
