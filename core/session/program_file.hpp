// Program files: the text that `lockstep show program` prints, perhaps edited, or written by hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/ir/verify/verify.hpp"

namespace lockstep {

/// Whether a file is a program: its name ends in ".program", or its first word is that of a
/// program's text.
bool is_program_file(const std::string& path);

struct LoadedProgram {
  Program program;  // meaningful only if there are no errors
  /// An error of reading the file, one of its text (with line and column), or all errors of
  /// verify(), which say if leaving something unproven would help.
  std::vector<Error> errors;
};
LoadedProgram load_program(const std::string& path, Unproven unproven = {});

/// The names of what `--allow` takes, and what verify() then leaves unproven.
inline constexpr std::string_view kAllowReplicas = "replicas";
Unproven unproven(const std::vector<std::string>& allowed);

/// The cluster with as many nodes as the ranks of a program need.
ClusterSpec with_room_for(const Program& program, ClusterSpec cluster);

/// Checks that a program fits a cluster. Errors: InvalidSpec if the cluster has fewer places than
/// there are ranks, OutOfMemory if what a rank needs does not fit into its part of a device.
Result<void> check_fits(const Program& program, const ClusterSpec& cluster);

}  // namespace lockstep
