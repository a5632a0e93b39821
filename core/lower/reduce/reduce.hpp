// Reduce: the two ways to sum gradients over data-parallel ranks.
#pragma once

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// DDP: all-reduces gradients in buckets. With `measured_alone`, those of which the largest is
/// taken (takes_largest), which ZeRO does not scatter.
void all_reduce_buckets(Draft& draft, DraftRole& out, bool measured_alone);
/// ZeRO stages 1 to 3: reduce-scatters gradients to the ranks that update them, then sums them over
/// replicas. What all_reduce_buckets() takes alone is left to it.
void scatter_gradients(Draft& draft, DraftRole& out);

}  // namespace lockstep
