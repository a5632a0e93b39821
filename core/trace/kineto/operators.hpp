// Operators: which operator of PyTorch launched each kernel of a Kineto file, and on tensors of
// what shape. Only files of a profiler with record_shapes=True say shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"

namespace lockstep {

/// An argument of an operator. Scalars, lists of tensors and what is not given have no dimensions.
struct TracedTensor {
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;  // empty: not in the file
  std::string type;                   // "c10::BFloat16", "float", …
  bool operator==(const TracedTensor&) const = default;
};

struct TracedKernel {
  std::string op;         // the innermost operator around the launch: "aten::mm"
  std::int64_t call = 0;  // shared by the kernels of one call of it
  std::vector<TracedTensor> inputs;
  std::string name;  // of the kernel
  Seconds time;      // on the device
  /// Since the kernel before it on the stream ended, where the host had launched this one by then,
  /// so that only the device decided.
  std::optional<Seconds> gap;
};

/// Reads the kernels of a file (.json or .json.gz) stream by stream, in the order of time. A kernel
/// belongs to the innermost operator that was open on the launching thread, as the correlation of
/// launch and kernel says; one without launch or operator is left out. Error Parse, with line and
/// column, if the file is no trace.
Result<std::vector<TracedKernel>> read_traced_kernels(const std::string& path);

}  // namespace lockstep
