// PartDType: the element type of a part of training.
#pragma once

#include "core/base/dtype.hpp"

namespace lockstep {

/// The type of a part of training: its own, or (Default) that of training.dtype.
enum class PartDType { Default, F32, BF16, F16 };
constexpr DType type_of(PartDType part, DType otherwise) {
  switch (part) {
    case PartDType::F32:
      return DType::F32;
    case PartDType::BF16:
      return DType::BF16;
    case PartDType::F16:
      return DType::F16;
    case PartDType::Default:
      break;
  }
  return otherwise;
}

}  // namespace lockstep
