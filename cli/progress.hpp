// Progress: shows how far a training run has come, by one line that rewrites itself on a terminal,
// else by a line now and then.
#pragma once

#include <optional>

#include "cli/console.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

class Progress {
 public:
  /// The run does `steps` steps from the 0-based `first_step` on. `samples_per_step` are those of
  /// all ranks, in `unit`, which is "tok" or "img".
  Progress(const Console& console, int first_step, int steps, std::int64_t samples_per_step,
           const char* unit);
  ~Progress();  // ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// With the loss of the validation that followed, if one did: such a step is always shown.
  void step(const StepResult& result, std::optional<double> validation = {});

 private:
  const Console& console_;
  int first_step_, steps_;
  std::int64_t samples_per_step_;
  const char* unit_;
  bool line_open_ = false;
};

}  // namespace lockstep
