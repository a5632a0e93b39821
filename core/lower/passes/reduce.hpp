// Reduce: its two ways to sum gradients over data-parallel ranks.
#pragma once

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// DDP: gradients all-reduced in buckets.
void all_reduce_buckets(Draft& draft, DraftRole& out);
/// ZeRO 1 to 3: gradients scattered to the ranks that update them, then summed over replicas.
void scatter_gradients(Draft& draft, DraftRole& out);

}  // namespace lockstep
