// Megatron arguments: the arguments of a training script, in whatever way the script puts them
// together. Internal to core/handover.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct MegatronArgument {
  std::string name;       // without dashes, with '-' for '_'
  std::string value;      // empty for a flag; more words than one are joined by blanks
  int line = 0;           // 1-based
  std::string unknown{};  // what has to be known to say the value; empty: it is known
};

/// Every "--name value" of a list of arguments or of the YAML of Megatron's tests, in its order.
/// Launch is for scripts.
std::vector<MegatronArgument> megatron_arguments(std::string_view text);

/// The program that a script starts, without its folder: "pretrain_x.py"; empty if there is none.
struct MegatronProgram {
  std::string name;
  int line = 0;
};

/// Whether a text is such a list and no script: it begins with an argument, or is YAML of them.
bool is_list_of_arguments(std::string_view text);

}  // namespace lockstep
