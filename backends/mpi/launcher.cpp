#include "backends/mpi/launcher.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace lockstep {
namespace {

/// Only what the launchers of MPI set for each process. A batch system's variables (SLURM_NTASKS)
/// are there in its scripts too, where a process is on its own.
constexpr const char* kLaunchers[][2] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE"},
    {"MPICH", "PMI_SIZE"},
};

}  // namespace

std::optional<Launch> find_launch() {
  for (const auto& [launcher, variable] : kLaunchers) {
    const char* text = std::getenv(variable);
    int processes = 0;
    if (text != nullptr &&
        std::from_chars(text, text + std::strlen(text), processes).ec == std::errc() &&
        processes > 1) {
      return Launch{launcher, variable, processes};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
