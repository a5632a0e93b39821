#include "core/base/convert.hpp"

#include <cstring>

#include "core/base/bfloat16.hpp"
#include "core/base/float16.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// A double holds every value of the other types, so it is the way between them.
template <class T>
double widened(T value) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}
template <class T>
T narrowed(double value) {
  return T(static_cast<float>(value));
}
template <>
double narrowed<double>(double value) {
  return value;
}

template <class From, class To>
void convert_all(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To made = narrowed<To>(widened(value));
    std::memcpy(to + i * sizeof made, &made, sizeof made);
  }
}

template <class From>
void convert_from(const std::byte* from, std::byte* to, std::size_t count, DType to_type) {
  switch (to_type) {
    case DType::F64:
      return convert_all<From, double>(from, to, count);
    case DType::BF16:
      return convert_all<From, bfloat16>(from, to, count);
    case DType::F16:
      return convert_all<From, float16>(from, to, count);
    default:
      return convert_all<From, float>(from, to, count);
  }
}

template <class T>
void add_to_all(double term, std::span<std::byte> values) {
  for (std::size_t at = 0; at < values.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, values.data() + at, sizeof value);
    value = narrowed<T>(widened(value) + term);
    std::memcpy(values.data() + at, &value, sizeof value);
  }
}

}  // namespace

void add(double term, std::span<std::byte> values, DType type) {
  switch (type) {
    case DType::F64:
      return add_to_all<double>(term, values);
    case DType::BF16:
      return add_to_all<bfloat16>(term, values);
    case DType::F16:
      return add_to_all<float16>(term, values);
    default:
      return add_to_all<float>(term, values);
  }
}

bool is_real(DType dtype) { return dtype != DType::I32 && dtype != DType::U8; }

void convert(std::span<const std::byte> from, DType from_type, std::span<std::byte> to,
             DType to_type) {
  const std::size_t count = from.size() / to_size(size_of(from_type));
  if (from_type == to_type) {
    std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  switch (from_type) {
    case DType::F64:
      return convert_from<double>(from.data(), to.data(), count, to_type);
    case DType::BF16:
      return convert_from<bfloat16>(from.data(), to.data(), count, to_type);
    case DType::F16:
      return convert_from<float16>(from.data(), to.data(), count, to_type);
    default:
      return convert_from<float>(from.data(), to.data(), count, to_type);
  }
}

void transpose(std::span<const std::byte> from, std::int64_t rows, std::int64_t cols,
               std::int64_t size, std::span<std::byte> to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      std::memcpy(to.data() + (c * rows + r) * size, from.data() + (r * cols + c) * size,
                  to_size(size));
    }
  }
}

}  // namespace lockstep
