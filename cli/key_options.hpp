// Key options: `--training.seq_len 8192` for `--set training.seq_len=8192`, for every key.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The arguments with every option whose name has a dot as --set has it. The value follows behind
/// "=" or as the next argument; without one, it is true.
std::vector<std::string> with_key_options(const std::vector<std::string>& arguments);

}  // namespace lockstep
