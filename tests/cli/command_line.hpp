// Command line: runs a command in this process and returns its exit code and text.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.hpp"
#include "tests/scenario_texts.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::test {

struct CommandOutcome {
  int exit_code = 0;
  std::string out, err;
};

inline CommandOutcome lockstep(const std::vector<std::string>& arguments, int width = kUsualWidth) {
  std::ostringstream out, err;
  Console console{out, err};
  console.width = console.err_width = width;
  const int code = run_cli(arguments, console);
  return {code, out.str(), err.str()};
}

/// A transformer small enough to train in a test: 2 pipeline stages of 2 replicas.
inline const std::string kTiny = R"([model]
preset = "gpt2-tiny"
layers = 2
hidden = 16
heads = 2
ffn_hidden = 32
[training]
local_batch_size = 2
seq_len = 8
steps = 6
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 2
data_parallel_replicate_degree = 2
[checkpoint]
interval = 3
)";

}  // namespace lockstep::test
