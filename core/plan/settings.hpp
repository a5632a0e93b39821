// Settings: what else of a strategy can be chosen when its layout is.
#pragma once

#include <functional>
#include <vector>

#include "core/base/units.hpp"
#include "core/plan/estimate/probe.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// A choice that a layout leaves open: the scenarios that differ from it in this alone.
using Alternatives = std::function<std::vector<Scenario>(const Scenario& layout)>;

/// The choices, in the order in which they are made. Where a layout has no such thing, there are no
/// alternatives; none of them is refused by validate().
/// - Accumulation (ZeRO 2 and 3 with several microbatches): gradients are scattered after every
///   microbatch, or once.
/// - Prefetch (ZeRO 3): 0, 1, 2 or 4 units are gathered ahead.
/// - Buckets (DDP): they close at 25, 100 or 400 MiB.
/// - Recomputation of whole blocks: in as many of each stage as `capacity` bytes a rank need (0: no
///   limit, and no such choice). What else can be recomputed costs too little to look for.
std::vector<Alternatives> settings(Bytes capacity, const Prober& prober);

/// Those of them that change when data is communicated: all but recomputation.
std::vector<Alternatives> settings_of_communication();

/// Whether a layout has any of these.
bool has_settings_of_communication(const Scenario& layout);

}  // namespace lockstep
