// Megatron arguments: the arguments of a training script, in whatever way the script puts them
// together. Internal to core/handover.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct MegatronArgument {
  std::string name;   // without dashes, with '-' for '_'
  std::string value;  // empty for a flag; more words than one are joined by blanks
  int line = 0;       // 1-based
};

/// Every "--name value" of a shell script, of a list of arguments or of the YAML of Megatron's
/// tests, in its order. Variables are put in for as far as the script gives them a value;
/// conditions are not followed, so that the arguments of all branches are there.
std::vector<MegatronArgument> megatron_arguments(std::string_view text);

/// The program that a script starts, without its folder: the last word of the kind "pretrain_x.py";
/// empty if there is none.
struct MegatronProgram {
  std::string name;
  int line = 0;
};
MegatronProgram megatron_program(std::string_view text);

}  // namespace lockstep
