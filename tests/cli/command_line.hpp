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

}  // namespace lockstep::test
