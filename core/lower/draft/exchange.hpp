// Exchange: the messages that a pipeline rank posts together, between two of its passes.
#pragma once

#include <vector>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"
#include "core/spec/strategy.hpp"

namespace lockstep {

/// For every message of the role, the last receive of its exchange that comes after it in the list.
/// None: there is no such receive, as for every op that is no message, and wherever messages are
/// not posted together (P2pPosting::Fused alone does that).
IndexVector<OpId, OpId> last_receives(const Role& role, P2pPosting posting);

}  // namespace lockstep
