// Ids: indices into the lists of a program, each kind a type of its own, so that they cannot be
// mixed up.
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

template <class Tag>
struct Id {
  std::int32_t v = -1;  // -1: none
  constexpr bool valid() const { return v >= 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using OpId = Id<struct OpTag>;              // index into Role::ops
using BufferId = Id<struct BufferTag>;      // index into Role::buffers
using FunctionId = Id<struct FunctionTag>;  // index into Program::functions
using GroupId = Id<struct GroupTag>;        // index into Program::groups
using ParameterId = Id<struct ParamTag>;    // index into Program::parameters
using RoleId = Id<struct RoleTag>;          // index into Program::roles

using Rank = std::int32_t;        // 0-based over the whole mesh
using Stage = std::int32_t;       // virtual pipeline stage, 0-based in model order
using Microbatch = std::int32_t;  // 0-based within a step and data-parallel replica

/// A step has at most so many microbatches; programs keep their numbers in so many bits.
inline constexpr Microbatch kMostMicrobatches = 1 << 16;
inline constexpr int kMicrobatchBits = 20;

}  // namespace lockstep
