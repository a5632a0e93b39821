// Launcher: finds out whether mpirun, or a similar launcher, has started this process as one of
// several.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

struct Launch {
  std::string launcher;  // "Open MPI"
  std::string variable;  // the environment variable that says so: "OMPI_COMM_WORLD_SIZE"
  int processes = 1;
};

/// The launch that this process belongs to; nullopt if it is the only process, also under mpirun.
std::optional<Launch> find_launch();

}  // namespace lockstep
