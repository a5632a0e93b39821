// A program in which only its meaning can be wrong: no race, no lifetime, no overlap in memory.
#pragma once

#include "core/ir/program.hpp"

namespace lockstep::test {

/// Returns a program with the same ops on the same buffers, in which every buffer has bytes of its
/// own for the whole step. Every op but a receive waits for all that stand before it in its rank's
/// list, and for the messages of its own operands. A mutant of it is then not refused only because
/// it happens to race.
Program relaxed(Program program);

}  // namespace lockstep::test
