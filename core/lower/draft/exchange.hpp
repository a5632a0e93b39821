// Exchange: the messages that a pipeline rank posts together between two of its forward or backward
// passes.
#pragma once

#include <vector>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"
#include "core/spec/strategy.hpp"

namespace lockstep {

/// By op: for a message, the last receive of its exchange that comes after it in the list. Invalid
/// if there is no such receive, for ops that are no messages, and if messages are not posted
/// together, which only P2pPosting::Fused does.
IndexVector<OpId, OpId> last_receives(const Role& role, P2pPosting posting);

}  // namespace lockstep
