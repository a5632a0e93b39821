// lockstep verify: tells what is wrong with a program's text, before any rank would hang on it.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/program_file.hpp"

namespace lockstep {

int verify_command(const VerifyArguments& arguments, const Console& console) {
  const LoadedProgram loaded = load_program(arguments.program);
  if (!loaded.errors.empty()) return report_errors(console, loaded.errors);
  const Program& program = loaded.program;
  std::size_t ops = 0;
  for (const Role& role : program.roles) ops += role.ops.size();
  console.out << fmt::format("{}: {} ranks, {} roles, {} ops: sound\n", arguments.program,
                             program.mesh.world_size(), program.roles.size(), ops);
  return 0;
}

}  // namespace lockstep
