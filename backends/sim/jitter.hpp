// Jitter: computation that does not take the same time twice.
#pragma once

#include <cstdint>

#include "core/base/ids.hpp"
#include "core/cluster/what_if.hpp"

namespace lockstep::sim {

/// What a call takes of its time: max(0, 1 + jitter z), z of mean 0 and variance 1, independent for
/// every rank and op; a function of (seed, rank, op) alone.
double jitter_factor(const WhatIfSpec& what_if, Rank rank, std::uint32_t op);

}  // namespace lockstep::sim
