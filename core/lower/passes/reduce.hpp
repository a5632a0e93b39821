// Reduce: the two ways to sum gradients over data-parallel ranks.
#pragma once

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// DDP: all-reduces gradients in buckets.
void all_reduce_buckets(Draft& draft, DraftRole& out);
/// ZeRO stages 1 to 3: reduce-scatters gradients to the ranks that update them, then sums them over
/// replicas.
void scatter_gradients(Draft& draft, DraftRole& out);

}  // namespace lockstep
