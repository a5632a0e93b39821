// Programs as Chakra traces and back: docs/chakra.md says what becomes of each op and node.
#pragma once

#include "core/base/units.hpp"
#include "core/chakra/chakra.hpp"
#include "core/ir/program.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Writes a program rank by rank. `simulated` is a trace of one step of it, from the simulator. It
/// says in which order transfers begin: ASTRA-sim runs one at a time, and where two ranks began
/// them in different orders it would wait for ever. `measured` says how long ops took; it may be
/// the same trace, or one of a run of the program, of which its last step counts.
class ChakraWriter {
 public:
  ChakraWriter(const Program& program, const Trace& simulated, const Trace& measured);
  /// A node for every op, and two for a rotation, which is a message to the next rank and one from
  /// the rank before. They are in the order of time, which is also that of their ids. Error:
  /// Internal if the trace is not one of the program.
  Result<std::vector<ChakraNode>> nodes(Rank rank);
  /// The groups that nodes() has used so far.
  ChakraGroups groups() const;

 private:
  struct Placed;
  const std::string& group_of(const std::vector<Rank>& members);
  ChakraNode node(Rank rank, const Role& role, OpId id) const;

  const Program& program_;
  const Trace& simulated_;
  const Trace& measured_;
  std::map<std::vector<Rank>, std::string> groups_;  // by members, sorted
};

/// What computes nodes that say their flops and bytes and no time, as ASTRA-sim's roofline does.
struct ChakraRoofline {
  double flops_per_second = 0, bytes_per_second = 0;
};

/// Makes a program of a trace, of delays, collectives and messages, that the simulator runs. The
/// n-th collective of a group is the n-th at all its members, and so are messages of a pair of
/// ranks with one tag. Nodes of a kind run in one order that all dependencies allow, and the
/// program is free of circles. Errors: InvalidSpec, naming rank and node: a dependency on a node
/// that is not there, a circle, a collective or a message that its peers do not have, a group or a
/// collective that is not known.
Result<Program> program_of(const ChakraTrace& trace, const ChakraRoofline& roofline);

}  // namespace lockstep
