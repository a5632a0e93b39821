// Kernel conformance: compares one kernel of a backend with its definition in float64
// (backends/reference). Inputs are random and rounded to the operand's type, outputs are poisoned,
// and the memory around every operand is checked.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/reference/kernels/kernels.hpp"
#include "core/base/convert.hpp"
#include "core/base/float16.hpp"
#include "core/base/quantized_state.hpp"
#include "core/ir/kernels/kernel.hpp"
#include "core/ir/program.hpp"
#include "core/run/device.hpp"
#include "tests/catch.hpp"

namespace lockstep::test {

using Numbers = std::vector<double>;

// The value of a result; ends the test if it is an error.
template <class T>
T take(Result<T> result) {
  if (!result) FAIL(to_string(result.error()));
  return std::move(*result);
}
inline void done(const Result<void>& result) {
  if (!result) FAIL(to_string(result.error()));
}

inline double rounded(double x, DType dtype) {
  if (dtype == DType::F64 || dtype == DType::I32 || dtype == DType::U8) return x;
  const auto single = static_cast<float>(x);
  if (dtype == DType::F32) return single;
  if (dtype == DType::F16) return static_cast<float>(float16(single));
  std::uint32_t bits;
  std::memcpy(&bits, &single, sizeof bits);
  bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

inline std::vector<std::byte> encoded(const Numbers& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    if (dtype == DType::F64) {
      std::memcpy(&bytes[8 * i], &x, 8);
    } else if (dtype == DType::U8) {
      bytes[i] = static_cast<std::byte>(x);
    } else if (dtype == DType::I32) {
      const auto id = static_cast<std::int32_t>(x);
      std::memcpy(&bytes[4 * i], &id, 4);
    } else {
      const auto single = static_cast<float>(x);
      if (dtype == DType::F32) {
        std::memcpy(&bytes[4 * i], &single, 4);
      } else if (dtype == DType::F16) {
        const float16 half(single);
        std::memcpy(&bytes[2 * i], &half, 2);
      } else {
        std::uint32_t bits;
        std::memcpy(&bits, &single, 4);
        const auto upper = static_cast<std::uint16_t>(bits >> 16);  // `values` are rounded already
        std::memcpy(&bytes[2 * i], &upper, 2);
      }
    }
  }
  return bytes;
}

inline Numbers decoded(const std::vector<std::byte>& bytes, DType dtype) {
  Numbers values(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::F64) {
      std::memcpy(&values[i], &bytes[8 * i], 8);
    } else if (dtype == DType::F32) {
      float x;
      std::memcpy(&x, &bytes[4 * i], 4);
      values[i] = x;
    } else if (dtype == DType::I32) {
      std::int32_t x;
      std::memcpy(&x, &bytes[4 * i], 4);
      values[i] = x;
    } else if (dtype == DType::U8) {
      values[i] = std::to_integer<int>(bytes[i]);
    } else if (dtype == DType::F16) {
      float16 half;
      std::memcpy(&half, &bytes[2 * i], 2);
      values[i] = static_cast<float>(half);
    } else {
      std::uint16_t upper;
      std::memcpy(&upper, &bytes[2 * i], 2);
      const std::uint32_t bits = std::uint32_t{upper} << 16;
      float x;
      std::memcpy(&x, &bits, 4);
      values[i] = x;
    }
  }
  return values;
}

/// A kernel and the values of its operands, by position; empty for an absent operand. An output
/// with an entry in `aliases` shares the memory of that input.
struct ConformanceCase {
  KernelKind kind;
  std::vector<std::int64_t> dims = {};
  std::vector<double> scalars = {};
  std::vector<Numbers> in = {};
  std::vector<Numbers> initial = {};  // what outputs hold before, if they are read
  std::vector<int> aliases = {};      // by output: an input; none if missing or -1
  bool accumulate = false;
  bool stochastic = false;
  StepContext context{3, 1e-2};
  std::vector<bool> absent_out = {};
  // 'w' at the place of an operand of OperandType::Mixed makes it float32 in a case of 16 bits, 'n'
  // makes it bfloat16 in one of float32.
  std::string wide_in = "", wide_out = "";
};

class ConformanceRun {
 public:
  ConformanceRun(const ConformanceCase& c, DType dtype) : case_(c) {
    kernel_.kind = c.kind;
    kernel_.dtype = dtype;
    kernel_.accumulate = c.accumulate;
    kernel_.stochastic = c.stochastic && dtype == DType::BF16;
    std::copy(c.dims.begin(), c.dims.end(), kernel_.dims.begin());
    std::copy(c.scalars.begin(), c.scalars.end(), kernel_.scalars.begin());
    const KernelRow& row = info(c.kind);
    const auto type = [&](const std::string& wide, std::size_t i, OperandType of) {
      const char other = of == OperandType::Mixed && i < wide.size() ? wide[i] : ' ';
      if (other == 'w') return sum_type(dtype);
      return other == 'n' && dtype == DType::F32 ? DType::BF16 : usual_dtype(of, dtype);
    };
    for (std::size_t i = 0; i < c.in.size(); ++i) {
      kernel_.in.push_back(c.in[i].empty() ? Operand{}
                                           : add(c.in[i], type(c.wide_in, i, row.in[i].type)));
    }
    const std::size_t outputs = row.out.size();
    for (std::size_t i = 0; i < outputs; ++i) {
      if (i < c.absent_out.size() && c.absent_out[i]) {
        kernel_.out.push_back({});
      } else if (i < c.aliases.size() && c.aliases[i] >= 0) {
        kernel_.out.push_back(kernel_.in[c.aliases[i]]);
      } else {
        const auto n = static_cast<std::size_t>(output_elements_of(i));
        const OperandType of = row.out[i].type;
        const Numbers poison(n, of == OperandType::Index  ? -12345.0
                                : of == OperandType::Byte ? 165.0
                                                          : std::nan(""));
        kernel_.out.push_back(
            add(i < c.initial.size() && !c.initial[i].empty() ? c.initial[i] : poison,
                type(c.wide_out, i, of)));
      }
    }
  }
  const Kernel& kernel() const { return kernel_; }

  /// The outputs by the definition, in float64.
  std::vector<Numbers> reference() const {
    Kernel kernel = kernel_;
    kernel.dtype = DType::F64;
    kernel.stochastic = false;
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::byte*> buffers;
    for (std::size_t b = 0; b < values_.size(); ++b) {
      memory.push_back(encoded(values_[b], is_real(types_[b]) ? DType::F64 : types_[b]));
    }
    for (auto& bytes : memory) buffers.push_back(bytes.data());
    for (auto* operands : {&kernel.in, &kernel.out}) {
      for (Operand& operand : *operands) {
        operand.offset = 0;
        if (is_real(operand.dtype)) operand.dtype = DType::F64;
      }
    }
    reference::run_kernel(kernel, buffers, case_.context);
    std::vector<Numbers> results;
    for (const Operand& operand : kernel.out) {
      results.push_back(operand.present() ? output_values(memory[operand.formal], operand)
                                          : Numbers{});
    }
    return results;
  }

  /// The outputs of a device that `make` makes for rank 0 of a program of one call; operands lie as
  /// below. It uses all of core/run/device.hpp that computing needs.
  using MakeDevice = std::function<std::unique_ptr<Device>(const Program&)>;
  std::vector<Numbers> run(const MakeDevice& make, std::int64_t shift) const;

  /// The outputs on `gpu`; operands begin `shift` elements behind an address aligned to 256 bytes.
  std::vector<Numbers> run(cuda::Driver& gpu, std::int64_t shift) const {
    const cuda::StreamHandle stream = take(gpu.create_stream(cuda::Priority::Normal));
    std::vector<std::byte*> memory, pinned;
    std::vector<std::int64_t> begins, sizes;
    for (std::size_t b = 0; b < values_.size(); ++b) {
      const std::vector<std::byte> bytes = encoded(values_[b], types_[b]);
      const auto size = static_cast<std::int64_t>(bytes.size());
      begins.push_back(kGuard + shift * alignment(types_[b]));
      sizes.push_back(begins.back() + size + kGuard);
      memory.push_back(take(gpu.allocate(cuda::Memory::Device, sizes.back())));
      pinned.push_back(take(gpu.allocate(cuda::Memory::PinnedHost, sizes.back())));
      std::memset(pinned.back(), 0xa5, static_cast<std::size_t>(sizes.back()));
      if (size > 0) std::memcpy(pinned.back() + begins.back(), bytes.data(), bytes.size());
      done(gpu.copy(stream, memory.back(), pinned.back(), sizes.back()));
    }
    const std::int64_t scratch_bytes = gpu.scratch_bytes(kernel_);
    std::byte* const scratch =
        take(gpu.allocate(cuda::Memory::Device, std::max<std::int64_t>(scratch_bytes, 1)));
    done(gpu.fill(stream, scratch, 0xff, std::max<std::int64_t>(scratch_bytes, 1)));
    cuda::KernelCall call{&kernel_, {}, {}, scratch, case_.context};
    const auto address = [&](const Operand& operand) -> std::byte* {
      if (!operand.present()) return nullptr;
      const auto at = static_cast<std::size_t>(operand.formal);
      return memory[at] + begins[at];
    };
    std::transform(kernel_.in.begin(), kernel_.in.end(), call.in.begin(), address);
    std::transform(kernel_.out.begin(), kernel_.out.end(), call.out.begin(), address);
    done(gpu.launch(stream, call));
    for (std::size_t b = 0; b < memory.size(); ++b) {
      done(gpu.copy(stream, pinned[b], memory[b], sizes[b]));
    }
    done(gpu.synchronize(stream));
    std::vector<Numbers> results;
    for (const Operand& operand : kernel_.out) {
      if (!operand.present()) {
        results.emplace_back();
        continue;
      }
      const auto at = static_cast<std::size_t>(operand.formal);
      const std::byte* const begin = pinned[at] + begins[at];
      const std::byte* const end = pinned[at] + sizes[at] - kGuard;
      results.push_back(output_values(std::vector<std::byte>(begin, end), operand));
    }
    for (std::size_t b = 0; b < memory.size(); ++b) {
      bool intact = true;
      for (std::int64_t i = 0; i < begins[b]; ++i) intact &= pinned[b][i] == std::byte{0xa5};
      for (std::int64_t i = sizes[b] - kGuard; i < sizes[b]; ++i) {
        intact &= pinned[b][i] == std::byte{0xa5};
      }
      CHECK(intact);
      gpu.release(cuda::Memory::Device, memory[b]);
      gpu.release(cuda::Memory::PinnedHost, pinned[b]);
    }
    gpu.release(cuda::Memory::Device, scratch);
    gpu.release(stream);
    return results;
  }

 private:
  static constexpr std::int64_t kGuard = 256;

  /// The values of an output; those of a quantized state are what its codes stand for.
  Numbers output_values(const std::vector<std::byte>& bytes, const Operand& output) const {
    const bool is_state = output.dtype == DType::U8 && kernel_.kind == KernelKind::AdamW8bit;
    if (!is_state) return decoded(bytes, output.dtype);
    const bool first = output.formal == kernel_.out[1].formal;
    const QuantizedState shape{kernel_.dims[0], kernel_.dims[1], first};
    Numbers values(static_cast<std::size_t>(shape.elements));
    read_quantized(shape, bytes.data(), 0, shape.blocks(), values.data());
    return values;
  }
  /// Bytes from one alignment of an operand of this type to the next.
  static std::int64_t alignment(DType dtype) { return dtype == DType::U8 ? 4 : size_of(dtype); }

  std::int64_t output_elements_of(std::size_t i) {
    Kernel with = kernel_;
    with.out.assign(i + 1, Operand{0, kernel_.dtype, 0});
    return output_elements(with, i);
  }
  Operand add(const Numbers& values, DType dtype) {
    Numbers own = values;
    for (double& x : own) x = std::isnan(x) ? x : rounded(x, dtype);
    values_.push_back(std::move(own));
    types_.push_back(dtype);
    return {static_cast<std::int16_t>(values_.size() - 1), dtype, 0};
  }

  ConformanceCase case_;
  Kernel kernel_;
  std::vector<Numbers> values_;  // by formal
  std::vector<DType> types_;
};

/// The largest difference, relative to the largest expected magnitude; infinite if there is a NaN
/// that is not expected.
inline double distance(const Numbers& actual, const Numbers& expected) {
  if (actual.size() != expected.size()) return HUGE_VAL;
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isinf(expected[i]) && actual[i] == expected[i]) continue;
    const double d = std::abs(actual[i] - expected[i]);
    if (!(d <= worst)) worst = d;
    if (std::isnan(d)) return HUGE_VAL;
    scale = std::max(scale, std::abs(expected[i]));
  }
  return worst / scale;
}

/// Cases for every kind except the delay, in shapes that are small and odd, aligned, long, random,
/// or have grouped heads; with and without each optional operand, accumulating and not. If `large`,
/// they include the sizes of real layers, for a real GPU.
std::vector<ConformanceCase> conformance_cases(bool large);

/// Kind, type and dimensions, for messages.
std::string text(const ConformanceCase& c, DType dtype);

/// Calls body(case, run of it, outputs by definition) for every case in every type, one after the
/// other. Meanwhile other threads compute the definitions of the next cases, which for large shapes
/// takes seconds.
using ConformanceBody = std::function<void(const ConformanceCase&, const ConformanceRun&,
                                           const std::vector<Numbers>& expected)>;
void for_each_run(const std::vector<ConformanceCase>& cases, const std::vector<DType>& types,
                  const ConformanceBody& body);

}  // namespace lockstep::test
