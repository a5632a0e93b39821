#include "backends/reference/kernels/operands.hpp"

#include <cassert>
#include <cstring>

#include "core/base/bfloat16.hpp"
#include "core/base/float16.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::reference {
namespace {

template <class T>
T got(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

double load(const std::byte* address, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return got<double>(address);
    case DType::F32:
      return got<float>(address);
    case DType::I32:
      return got<std::int32_t>(address);
    case DType::U8:
      return got<std::uint8_t>(address);
    case DType::F16:
      return static_cast<float>(got<float16>(address));
    default:
      return static_cast<float>(got<bfloat16>(address));
  }
}

template <class T>
void put(std::byte* address, T value) {
  std::memcpy(address, &value, sizeof value);
}

void store(double value, std::byte* address, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return put(address, value);
    case DType::F32:
      return put(address, static_cast<float>(value));
    case DType::I32:
      return put(address, static_cast<std::int32_t>(value));
    case DType::U8:
      return put(address, static_cast<std::uint8_t>(value));
    case DType::F16:
      return put(address, float16(static_cast<float>(value)));
    default:
      return put(address, bfloat16(static_cast<float>(value)));
  }
}

}  // namespace

Operands::Operands(const Kernel& kernel, std::span<std::byte* const> buffers,
                   const StepContext& context)
    : kernel_(kernel), context_(context) {
  const auto copy = [&](const Operand& operand, std::int64_t elements) {
    Copy out;
    if (!operand.present()) return out;
    assert(to_size(operand.formal) < buffers.size());
    out.address = buffers[to_size(operand.formal)] + operand.offset;
    out.dtype = operand.dtype;
    out.values.reserve(to_size(elements));
    for (std::int64_t i = 0; i < elements; ++i) {
      out.values.push_back(load(out.address + i * size_of(operand.dtype), operand.dtype));
    }
    return out;
  };
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    in_.push_back(copy(kernel.in[i], input_elements(kernel, i)));
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    out_.push_back(copy(kernel.out[i], output_elements(kernel, i)));
  }
}

void Operands::store() const {
  for (const Copy& output : out_) {
    std::byte* address = output.address;
    for (const double value : output.values) {
      reference::store(value, address, output.dtype);
      address += size_of(output.dtype);
    }
  }
}

View Operands::view(Copy& copy, Index rows) {
  const auto elements = static_cast<Index>(copy.values.size());
  return {copy.values.data(), rows, rows == 0 ? 0 : elements / rows};
}

}  // namespace lockstep::reference
