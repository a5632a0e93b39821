// Inputs: which passes have what they need, while the actions of a schedule are followed.
#pragma once

#include <optional>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep {

/// Forward passes go from stage to stage, backward passes the other way. A pass of a stage that all
/// ranks share is done when every rank has run its part; a backward pass of the last stage waits
/// for nothing but its own forward pass, unless all ranks share that stage: then for all parts.
class Inputs {
 public:
  explicit Inputs(const Schedule& schedule);
  /// Whether what other ranks give to `action` is there.
  bool ready(const Action& action) const;
  /// Notes that a rank has run `action`. Returns the pass that can run for that, if there is one:
  /// its phase is that of `action`, unless it is the first of the backward passes.
  std::optional<Action> run(const Action& action);

 private:
  std::size_t cell(const Action& action) const;
  const Schedule& schedule_;
  std::size_t microbatches_ = 1;
  std::vector<int> forward_, backward_;         // parts that have run, by stage and microbatch
  std::vector<bool> to_forward_, to_backward_;  // what has its input, likewise
};

/// Whether the result of a pass of stage `from` goes to stage `to` in a message: each has a rank of
/// its own.
bool in_message(const Schedule& schedule, Stage from, Stage to);

}  // namespace lockstep
