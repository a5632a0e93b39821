// Calibration: says which kernels a backend measures, and makes of the measurements the efficiency
// curves that the cost model reads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep {

/// A kernel whose i-th operand, inputs first, is the whole of formal buffer i. Of the optional
/// operands only the first `optional_inputs` and `optional_outputs` are present.
Kernel calibration_kernel(KernelKind kind, DType dtype, const std::vector<std::int64_t>& dims,
                          const std::vector<double>& scalars = {}, int optional_inputs = 0,
                          int optional_outputs = 0);

/// Kernels of a transformer layer `width` wide on `tokens` tokens, and of a residual network on
/// images of as many positions with `width` channels.
std::vector<Kernel> calibration_kernels(DType dtype, std::int64_t tokens, std::int64_t width);

/// Adds a measurement of `kernel` to its curve: one run took `seconds`, launch included. Requires
/// the device's peak in the kernel's type (else its first), memory bandwidth and launch overhead.
/// The curve is of kernels of `type`. Points of a curve that are closer
/// than 20 % become one, because near neighbours say the same and a curve needs ascending times.
void add_measurement(DeviceSpec& device, const Kernel& kernel, double seconds,
                     CurveType type = CurveType::All);

/// What a kernel takes that a program runs so often, launch included.
struct KernelTime {
  Kernel kernel;
  double seconds = 0;
  int count = 0;
};

/// Whether two kernels do the same work: they may differ in where their operands lie, and in
/// numbers such as the rate of a dropout.
bool same_work(const Kernel& a, const Kernel& b);

/// Adds the kernels of one program. Those that would become one point of a curve count as often as
/// they run, so that all of them together take as long as was measured.
void add_measurements(DeviceSpec& device, std::vector<KernelTime> times);

}  // namespace lockstep
