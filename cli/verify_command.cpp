// lockstep verify: what is wrong with a program's text, before any rank would hang on it.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "cli/commands.hpp"
#include "core/ir/text/text.hpp"
#include "core/ir/verify/verify.hpp"

namespace lockstep {

int verify_command(const VerifyArguments& arguments, const Console& console) {
  std::ifstream file(arguments.program, std::ios::binary);
  std::ostringstream text;
  if (!(file && text << file.rdbuf())) {
    return report_error(console, {ErrorKind::Parse, "cannot read the program",
                                  SourceSpan{arguments.program, 0, 0}});
  }
  const Result<Program> program = parse_program(text.str(), arguments.program);
  if (!program) return report_error(console, program.error());
  std::vector<Error> faults = verify(*program);
  for (Error& fault : faults) {  // of a text that a user has written, not of ours
    fault.kind = ErrorKind::InvalidSpec;
    fault.where = SourceSpan{arguments.program, 0, 0};
  }
  if (!faults.empty()) return report_errors(console, faults);
  std::size_t ops = 0;
  for (const Role& role : program->roles) ops += role.ops.size();
  console.out << fmt::format("{}: {} ranks, {} roles, {} ops: sound\n", arguments.program,
                             program->mesh.world_size(), program->roles.size(), ops);
  return 0;
}

}  // namespace lockstep
