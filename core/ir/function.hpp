// Function: the compute between two points of communication, by kernels over formal buffers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/ir/function_name.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep {

enum class Access : std::uint8_t { Read, Write, ReadWrite };

/// A formal buffer of a function; the op binds an actual buffer of at least `bytes`.
struct Formal {
  std::string name;
  Access access = Access::Read;
  Bytes bytes;
  bool operator==(const Formal&) const = default;
};

enum class OpKind : std::uint8_t;

/// A collective inside a layer: tensor `in` becomes tensor `out` over the ranks along `axis` ("dp":
/// all data-parallel ones). In place where both are the same.
struct Exchange {
  OpKind kind;
  std::string axis, in, out;  // tensors by the names of the formals that hold them
  bool operator==(const Exchange&) const = default;
};

/// The compute between two points of communication, as a list of kernels over formal buffers.
struct Function {
  FunctionName name;
  IndexVector<int, Formal> formals;
  std::vector<Kernel> kernels;
  /// Communications that follow it. Those that begin a part of a layer stand with its first.
  std::vector<Exchange> exchanges = {};
  std::uint64_t emitted = 0;  // fingerprint() when the library made it; 0: the user's own
  bool operator==(const Function&) const = default;
};
Work work(const Function& function);
/// A hash of all that a function does, its name included; never 0.
std::uint64_t fingerprint(const Function& function);

}  // namespace lockstep
