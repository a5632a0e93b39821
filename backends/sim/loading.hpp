// Loading: a step of a training whose data loader may fall behind.
#pragma once

#include "backends/sim/engine.hpp"

namespace lockstep::sim {

/// simulate() with the cluster's data loader (ClusterSpec::loader), as it is when many steps follow
/// each other. Workers go on loading while a step computes, so
/// - if they load a step's samples in less time than it computes, they have `ahead` microbatches
///   when a step begins (LoadingPace), and the others when the pace says;
/// - if they take longer, a step takes as long as they do. Its first microbatch is ready when the
///   workers have gone on since they had the last one of the step before, which is as long before
///   this step's begin as that step still computed after it.
/// Without workers the rank's own process loads each microbatch when the device is to have it; what
/// the device has been given before, it does meanwhile.
/// It is simulate() itself if samples take no time. Requirements and errors: those of simulate().
Result<Timeline> simulate_with_loader(const Program& program, const ClusterSpec& cluster,
                                      const WhatIfSpec& what_if = {},
                                      const EngineOptions& options = {});

}  // namespace lockstep::sim
