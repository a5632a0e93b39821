// KernelCase: runs one kernel on values given as doubles, with every instruction set of this
// machine and teams of 1, 2 and 3 threads, whose results must be bit-equal. Outputs are poisoned,
// and memory around the operands is guarded. Operands have the types that the kernel's row gives
// them.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/kernels.hpp"
#include "tests/backends/cpu/kernels/guarded_memory.hpp"
#include "tests/catch.hpp"

namespace lockstep::cpu::test {

struct KernelInput {
  Values values;  // empty if the operand is absent
};
struct KernelOutput {
  std::size_t n = 0;    // number of elements; 0 if it is absent
  int aliases = -1;     // index of the input whose memory it shares
  Values initial = {};  // what it holds before; empty for NaN
  bool f64 = false;     // an output of OperandType::Real is float64, whatever the kernel's type
};

struct KernelCase {
  KernelKind kind;
  DType dtype = DType::F64;
  std::vector<std::int64_t> dims = {};
  std::vector<double> scalars = {};
  std::vector<KernelInput> in = {};
  std::vector<KernelOutput> out = {};
  bool accumulate = false;
  StepContext context = {};
};

/// Values in [-1, 1) that float32 holds exactly.
inline Values random_values(std::size_t n, unsigned seed, double scale = 1.0) {
  std::mt19937 engine(seed);
  Values v(n);
  for (double& x : v) {
    x = static_cast<float>(scale * (static_cast<double>(engine()) / 2147483648.0 - 1.0));
  }
  return v;
}
inline Values random_ids(std::size_t n, unsigned seed, unsigned below) {
  std::mt19937 engine(seed);
  Values v(n);
  for (double& x : v) x = engine() % below;
  return v;
}

inline std::vector<Values> run_once(const KernelCase& c, const KernelTable& table, int threads) {
  Kernel kernel;
  kernel.kind = c.kind;
  kernel.dtype = c.dtype;
  kernel.accumulate = c.accumulate;
  std::copy(c.dims.begin(), c.dims.end(), kernel.dims.begin());
  std::copy(c.scalars.begin(), c.scalars.end(), kernel.scalars.begin());
  const KernelRow& row = info(c.kind);
  std::vector<Memory> memory;
  const auto add = [&](std::size_t n, DType dtype) {
    memory.emplace_back(n, dtype);
    return Operand{static_cast<std::int16_t>(memory.size() - 1), dtype,
                   static_cast<std::int64_t>(memory.back().guard())};
  };
  for (const KernelInput& in : c.in) {
    const DType dtype = usual_dtype(row.in[kernel.in.size()].type, c.dtype);
    kernel.in.push_back(in.values.empty() ? Operand{} : add(in.values.size(), dtype));
    if (!in.values.empty()) memory.back().write(in.values);
  }
  for (const KernelOutput& out : c.out) {
    if (out.n == 0) {
      kernel.out.push_back({});
    } else if (out.aliases >= 0) {
      kernel.out.push_back(kernel.in[out.aliases]);
    } else {
      const OperandType type = row.out[kernel.out.size()].type;
      kernel.out.push_back(add(out.n, out.f64 ? DType::F64 : usual_dtype(type, c.dtype)));
      const double poison =
          type == OperandType::Index ? -77777 : std::numeric_limits<double>::quiet_NaN();
      memory.back().write(out.initial.empty() ? Values(out.n, poison) : out.initial);
    }
  }
  REQUIRE(supports(kernel));
  std::vector<std::byte*> buffers;
  for (Memory& m : memory) buffers.push_back(m.data());
  ThreadTeam team(threads);
  run_kernel(table, kernel, buffers, c.context, team);
  std::vector<Values> result;
  for (const Operand& operand : kernel.out) {
    result.push_back(operand.present() ? memory[operand.formal].read() : Values{});
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    INFO("operand " << i);
    REQUIRE(memory[i].guards_intact());
  }
  return result;
}

inline bool bit_equal(const Values& a, const Values& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();  // no data, no address to compare
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// The outputs for each instruction set, after a check that they are equal for every team size.
inline std::vector<std::vector<Values>> run_everywhere(const KernelCase& c) {
  std::vector<std::vector<Values>> results;
  for (int t = 0; t < kernel_tables().count; ++t) {
    const KernelTable& table = kernel_tables().tables[t];
    INFO(table.isa);
    results.push_back(run_once(c, table, 1));
    for (const int threads : {2, 3}) {
      const std::vector<Values> again = run_once(c, table, threads);
      for (std::size_t i = 0; i < again.size(); ++i) {
        INFO("output " << i << " with " << threads << " threads");
        REQUIRE(bit_equal(again[i], results.back()[i]));
      }
    }
  }
  return results;
}

/// The outputs of the best instruction set on one thread.
inline std::vector<Values> run(const KernelCase& c) {
  return run_once(c, kernel_tables().best(), 1);
}

/// The largest difference, relative to the largest expected magnitude (at least 1e-30); NaN if
/// there is any.
inline double relative_error(const Values& actual, const Values& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double d = std::abs(actual[i] - expected[i]);
    if (!(d <= worst)) worst = d;
    if (std::isnan(d)) return d;
    scale = std::max(scale, std::abs(expected[i]));
  }
  return worst / scale;
}

/// Runs the case in both types everywhere and compares each output with `expected`, unless that
/// entry is empty. Tolerances are relative to the largest value of the output.
inline void check_case(KernelCase c, const std::vector<Values>& expected, double tolerance_f32,
                       double tolerance_f64) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    c.dtype = dtype;
    const auto results = run_everywhere(c);
    for (std::size_t t = 0; t < results.size(); ++t) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (expected[i].empty()) continue;
        INFO(to_string(dtype) << " " << kernel_tables().tables[t].isa << " output " << i);
        CHECK(relative_error(results[t][i], expected[i]) <=
              (dtype == DType::F32 ? tolerance_f32 : tolerance_f64));
      }
    }
  }
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The central difference of <g, outputs[0] of forward> when input `which` moves along `direction`.
inline double slope(KernelCase forward, std::size_t which, const Values& direction,
                    const Values& g) {
  constexpr double h = 1e-5;
  const Values at = forward.in[which].values;
  const auto value = [&](double step) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      forward.in[which].values[i] = at[i] + step * direction[i];
    }
    return dot(g, run(forward)[0]);
  };
  return (value(h) - value(-h)) / (2 * h);
}

}  // namespace lockstep::cpu::test
