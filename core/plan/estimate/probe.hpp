// Probe: a small program of a layout, lowered and simulated, from which an estimate reads what its
// layers take.
#pragma once

#include <functional>

#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/ir/program.hpp"
#include "core/memory/device_memory.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// When an op of a role ran: from when its inputs and its peers were ready, to its end.
struct OpInterval {
  Seconds begin, end;
};

/// Parts of a step in which a rank's memory grows by different laws: forward passes; backward
/// passes; the last one (B or W), when there are gradients of all layers; and the update.
enum class StepPart { Forward, Backward, LastBackward, Update };
inline constexpr int kNumStepParts = 4;
/// What an op of a step works on: the first layer of the model, a block, or the last layer. The
/// most that a rank keeps while it works on one of them is linear in the number of blocks. The most
/// of all three is not.
enum class LayerPlace { First, Block, Last };
inline constexpr int kNumLayerPlaces = 3;
template <class T>
using ByPlace = IndexArray<LayerPlace, T, kNumLayerPlaces>;
template <class T>
using ByMoment = IndexArray<StepPart, ByPlace<T>, kNumStepParts>;

/// A step of a scenario with every op's time and every role's memory.
struct Probe {
  Program program;
  IndexVector<RoleId, IndexVector<OpId, OpInterval>> times;  // by role, of its first rank
  IndexVector<RoleId, Bytes> needed;                         // MemoryFigures::needed, by role
  Seconds step;
};

/// What a role of the probe needs.
struct RoleMemory {
  /// MemoryFigures::needed without holes, if its fullest moment were in that part of the step, and
  /// in that place.
  ByMoment<double> needed{};
  /// What of the arena is never alive at once. It follows no law: a small buffer that lies where a
  /// large one was makes a hole of that size, and one more block may be enough to close it.
  double holes = 0;
  double kept = 0;     // of one more microbatch in flight, from F on
  double pending = 0;  // the same from I to W
};

/// The memory of a role whose forward passes follow each other, and then its backward passes (I and
/// W each). What a microbatch keeps is the difference between two moments: the begins of the second
/// and the third microbatch's passes, if there are so many.
RoleMemory role_memory(const Probe& probe, RoleId role, const FrameworkSpec& framework);

/// Lowers a scenario and simulates one step of it. Several threads call it at once.
using Prober = std::function<Result<Probe>(const Scenario&)>;

}  // namespace lockstep
