// Recomputation by stage: as many blocks of every pipeline rank are recomputed as its memory needs,
// and no more. The first ranks of 1F1B hold the activations of most microbatches and the last ones
// of one, so what the first rank must recompute the last one may keep.
#pragma once

#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/plan/estimate/probe.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// The smallest ActivationCheckpointSpec::recomputed_layers_per_stage with which no rank needs more
/// than `capacity` bytes. Ranks do not depend on each other, so each step of a bisection asks the
/// prober once for all of them; on a rank of several stages the first stage, whose activations live
/// longest, comes first. Ranks that run the same stages, such as a pair of DualPipe's, share a
/// number. Requires that the scenario validates and recomputes something. Errors: OutOfMemory if it
/// does not fit even with all blocks recomputed; those of the prober.
Result<std::vector<int>> least_recomputation(const Scenario& scenario, Bytes capacity,
                                             const Prober& prober);

}  // namespace lockstep
