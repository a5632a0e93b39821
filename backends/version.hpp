// Version: what this binary is, as --version says it.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Facts about the build; cmake/LockstepVersion.cmake writes the definition.
struct BuildFacts {
  const char* version;  // of CMakeLists.txt
  const char* commit;   // "1a2b3c4", "1a2b3c4, dirty" where files differ from it, or "no git"
  const char* cuda;     // toolkit and architectures: "13.0.88, sm_90"; "" where it is not built
  bool mpi;             // whether ranks may be processes of mpirun
};
extern const BuildFacts kBuildFacts;

/// Three lines of text: version and commit; backends; how processes are started.
std::string version_text(std::string_view program, const BuildFacts& facts = kBuildFacts);

}  // namespace lockstep
