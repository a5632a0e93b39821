// Clip: the global norm of the gradients, by which they are clipped.
#pragma once

#include "core/lower/draft/draft.hpp"

namespace lockstep {

/// Computes the global norm of the gradients. The squared norm is summed over `dp` blocks of
/// every unit. The blocks are the same whether they are a rank's shard (ZeRO, FSDP), parts of one
/// (HYBRID_SHARD, where sizes divide) or of a replica (DDP), so that all give the same bits for
/// the same gradients. Units that an axis splits are summed separately, and then over that axis,
/// so that each element counts once. Experts that are divided over `ep` of the data-parallel
/// ranks have as many blocks as there are ranks that hold the same experts. The norm is a metric
/// of every step, whether gradients are clipped or not. Returns the coefficient by which
/// gradients are multiplied; invalid if clipping is off, so that no update waits for the norm.
/// If the loss is scaled, the coefficient divides the scale out. The norm is then finite on every
/// rank exactly if all gradients on all ranks are, and else the coefficient tells every update to
/// do nothing: no flag has to be exchanged beside it.
BufferId clip(Draft& draft, DraftRole& out);

}  // namespace lockstep
