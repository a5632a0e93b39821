// Launcher: whether mpirun, or what acts like it, has started this process as one of several.
#pragma once

#include <optional>
#include <string>

namespace lockstep {

struct Launch {
  std::string launcher;  // "Open MPI"
  std::string variable;  // of the environment, that told: "OMPI_COMM_WORLD_SIZE"
  int processes = 1;
};

/// None for a process on its own, also if mpirun has started just one.
std::optional<Launch> find_launch();

}  // namespace lockstep
