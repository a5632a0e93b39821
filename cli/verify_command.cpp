// lockstep verify: tells what is wrong with a program's text, before any rank would hang on it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/session/program_file.hpp"

namespace lockstep {

int verify_command(const VerifyArguments& arguments, const Console& console) {
  const LoadedProgram loaded = load_program(arguments.program, unproven(arguments.allow));
  const Program& program = loaded.program;
  std::size_t ops = 0;
  for (const Role& role : program.roles) ops += role.ops.size();
  if (arguments.json) {
    nlohmann::ordered_json faults = nlohmann::ordered_json::array();
    for (const Error& error : loaded.errors) faults.push_back(to_string(error));
    console.out << json_text({{"faults", faults},
                              {"ranks", program.mesh.world_size()},
                              {"roles", program.roles.size()},
                              {"ops", ops}});
  }
  if (!loaded.errors.empty()) return report_errors(console, loaded.errors);
  const bool replicas = unproven(arguments.allow).replicas;
  if (replicas) report_note(console, fmt::format("not proven: {}", kReplicasUnproven));
  if (arguments.json) return 0;
  console.out << fmt::format("{}: {} ranks, {} roles, {} ops: sound{}\n", arguments.program,
                             program.mesh.world_size(), program.roles.size(), ops,
                             replicas ? ", as far as it is proven" : "");
  return 0;
}

}  // namespace lockstep
