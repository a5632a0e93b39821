#include "backends/version.hpp"

#include "backends/backends.hpp"

namespace lockstep {

std::string version_text(std::string_view program, const BuildFacts& facts) {
  std::string text = std::string(program) + " " + facts.version + ", commit " + facts.commit;
  text += "\nbackends:";
  const char* separator = " ";
  for (const std::string& name : backend_names()) {
    text += separator + name;
    if (name == "cuda") text += std::string(" (toolkit ") + facts.cuda + ")";
    separator = ", ";
  }
  text += std::string("\nprocesses started by: lockstep itself, torchrun (tcp)") +
          (facts.mpi ? ", mpirun (mpi)" : "");
  return text;
}

}  // namespace lockstep
