// Jitter: random variation of the time that computation takes.
#pragma once

#include <cstdint>

#include "core/base/ids.hpp"
#include "core/cluster/what_if.hpp"

namespace lockstep::sim {

/// The factor by which the time of a call is multiplied: max(0, 1 + jitter z), where z has mean 0
/// and variance 1 and is independent for every rank and op. It depends on (seed, rank, op) alone.
/// Where factors were recorded, it is the recorded one.
double jitter_factor(const WhatIfSpec& what_if, Rank rank, std::uint32_t op);

}  // namespace lockstep::sim
