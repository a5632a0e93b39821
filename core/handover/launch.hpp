// Launch: the training that a shell script starts: the program, its arguments, and what the
// launchers before it (torchrun, srun, mpirun, deepspeed, accelerate) say of GPUs. Internal to
// core/handover.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/handover/megatron_arguments.hpp"

namespace lockstep {

struct Launch {
  MegatronProgram program;
  std::vector<MegatronArgument> arguments;
  /// Options of launchers and of other commands, "torchrun --rdzv_backend c10d".
  std::vector<std::string> of_others;
  std::vector<std::string> assumed;   // a sentence each
  std::vector<std::string> harmless;  // names of arguments that stand on one way alone
  std::vector<std::string> unused;    // names of `given` that are none of the script's variables
  bool launches = false;              // whether the text starts a program
  std::int64_t nodes = 0, ranks = 0;  // 0: not said
  std::string from;                   // "torchrun --nnodes 2 --nproc_per_node 8"
  std::string unknown_gpus;           // "--nproc_per_node $GPUS", if that is not known
};

/// The launch of a script. `given` are values of its variables and parameters (--arg). Errors:
/// Parse; InvalidSpec for two plans, with what chooses between them.
Result<Launch> launch_of(std::string_view text, const std::string& file,
                         const std::map<std::string, std::string>& given);

}  // namespace lockstep
