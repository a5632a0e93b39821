// TrainingState: the values of a program's parameters and optimizer states, whole (unsharded) and
// by name, so that any layout can continue what any other began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/loss_scale.hpp"

namespace lockstep {

struct Tensor {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  // dense row-major, host byte order (little endian)
  bool operator==(const Tensor&) const = default;
};

/// The keys of `tensors` are "<parameter>", "adam_m.<parameter>" and "adam_v.<parameter>".
struct TrainingState {
  int step = 0;  // steps done, those included that a loss scale skipped
  std::optional<LossScale> loss_scale = std::nullopt;  // of the next step, if losses are scaled
  std::map<std::string, Tensor> tensors;
  bool operator==(const TrainingState&) const = default;
};

}  // namespace lockstep
