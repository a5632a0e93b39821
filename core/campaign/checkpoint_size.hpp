// Checkpoint size: the bytes of a program's checkpoint, from the states that its units keep.
#pragma once

#include "core/ir/program.hpp"

namespace lockstep {

struct CheckpointSize {
  Bytes whole;         // tensors of all parameters and states, each element once
  Bytes fullest_rank;  // what the rank with most of them copies of its own
};
/// Replicas that train apart, and factors of low rank, are left out.
CheckpointSize checkpoint_size(const Program& program);

}  // namespace lockstep
