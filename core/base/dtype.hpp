// DType: the element type of a tensor.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

enum class DType : std::uint8_t { F32, F64, BF16, F16, I32, U8 };

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::F64:
      return 8;
    case DType::F32:
    case DType::I32:
      return 4;
    case DType::BF16:
    case DType::F16:
      return 2;
    case DType::U8:
      return 1;
  }
  return 0;
}

/// The type of sums and statistics over elements of type `t`; never narrower than float32.
constexpr DType sum_type(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

/// torchtitan's spelling ("float32", "bfloat16", …).
constexpr std::string_view to_string(DType t) {
  switch (t) {
    case DType::F32:
      return "float32";
    case DType::F64:
      return "float64";
    case DType::BF16:
      return "bfloat16";
    case DType::F16:
      return "float16";
    case DType::I32:
      return "int32";
    case DType::U8:
      return "uint8";
  }
  return "?";
}

}  // namespace lockstep
