// Convert: the same numbers in another element type.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/dtype.hpp"

namespace lockstep {

/// Whether convert() takes and gives this type: the four floating-point types.
bool is_real(DType dtype);
/// Rounds to nearest. `to` holds as many elements as `from`.
void convert(std::span<const std::byte> from, DType from_type, std::span<std::byte> to,
             DType to_type);
/// Adds a number to each of the values, which are of a type that convert() takes.
void add(double term, std::span<std::byte> values, DType type);
/// Writes the transpose of a matrix [rows, cols], whose elements have `size` bytes.
void transpose(std::span<const std::byte> from, std::int64_t rows, std::int64_t cols,
               std::int64_t size, std::span<std::byte> to);

}  // namespace lockstep
