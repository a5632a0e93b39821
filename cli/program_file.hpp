// Programs as files: the text that `lockstep show program` prints, edited, or written by hand.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// True for a file whose name ends in ".program", or whose first word is that of a program's text.
bool is_program_file(const std::string& path);

struct LoadedProgram {
  Program program;            // meaningful only without errors
  std::vector<Error> errors;  // of reading, of spelling (with line and column), or all of verify()
};
LoadedProgram load_program(const std::string& path);

/// InvalidSpec if the cluster has no place for all ranks, OutOfMemory if what a rank needs does not
/// fit into its part of a device.
Result<void> check_fits(const Program& program, const ClusterSpec& cluster);

}  // namespace lockstep
