// Gradients: makes gradients of one microbatch, or of a group of them, instead of sums over a step.
#pragma once

#include <vector>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// The gradient of a unit in one microbatch, or in a group of them.
struct MicrobatchGradient {
  std::size_t unit = 0;
  BufferId buffer;
  std::size_t ready = 0;  // the op that writes it last
};
/// Gives every `group` successive microbatches gradients of their own, which are not added to those
/// before. The units' buffers become those of the first group. Returns the gradients in the order
/// in which they are ready.
std::vector<MicrobatchGradient> split_by_microbatch(Draft& draft, DraftRole& out, int group = 1);

/// A function that copies "x" to "y", with a cast if the types differ, or adds it to "y".
FunctionId copy_function(ProgramBuilder& build, std::int64_t elements, DType from, DType to,
                         bool add);

}  // namespace lockstep
