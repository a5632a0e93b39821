// Mutants: programs with one fault each, of the kinds that a pass, an editor or another tool could
// make.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "core/ir/program.hpp"

namespace lockstep::test {

/// Where the fault is.
enum class MutantClass : std::uint8_t {
  Order,      // an op deleted, doubled or moved
  Reduction,  // a collective deleted, doubled, of another kind or over another group, everywhere
  Message,    // another peer, another message's data, another order, lost
  Result,     // what leads to loss or norm: a sum, squares, a copy to the host
  Operand,    // another buffer of equal size
  Data,       // the same tensor of another microbatch or layer
  Tag,        // microbatch, layer, stage, phase, host data
  Function,   // arithmetic: kernels, dimensions, scalars, operands
  Buffer,     // type, kind, place in its parent, names
  Unit,       // parameters, states, groups
  Table,      // groups, mesh, number of updates
  Parameter,  // shape, initial values, split
};
inline constexpr int kNumMutantClasses = static_cast<int>(MutantClass::Parameter) + 1;
std::string_view to_string(MutantClass which);

struct Mutant {
  Program program;
  std::string what;  // "rank 0: %7 all_reduce dp: deleted"
};

/// Makes a mutant of that class; nullopt if the program has no such place, or if nothing changed.
std::optional<Mutant> mutate(const Program& program, MutantClass which, std::mt19937& random);

}  // namespace lockstep::test
