#include "backends/mpi/launcher.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace lockstep {
namespace {

/// The variables that launchers of MPI set for each process. Those of a batch system (SLURM_NTASKS)
/// are not used, because they are also set in its scripts, where a process is alone.
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
