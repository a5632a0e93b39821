// Gradients: of one microbatch, or of a group of them, instead of the sum over a step.
#pragma once

#include <vector>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// A unit's gradient of one microbatch, or of a group of them.
struct MicrobatchGradient {
  std::size_t unit = 0;
  BufferId buffer;
  std::size_t ready = 0;  // its last write
};
/// Gives each `group` of microbatches that follow each other gradients of its own, not added to
/// those before; the units' buffers go to the first. In the order in which they are ready.
std::vector<MicrobatchGradient> split_by_microbatch(Draft& draft, DraftRole& out, int group = 1);

/// "x" copied to "y" (cast if the types differ), or added to it.
FunctionId copy_function(ProgramBuilder& build, std::int64_t elements, DType from, DType to,
                         bool add);

}  // namespace lockstep
