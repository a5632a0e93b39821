// Handover: a scenario in the words of another trainer, so that what was planned here is run there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

struct Handover {
  std::string text;    // the other trainer's configuration
  std::string launch;  // the line that starts it on the scenario's cluster
  /// What the scenario says and the configuration cannot, a sentence each. Nothing that changes the
  /// plan is left out of both.
  std::vector<std::string> unsaid;
};

/// The trainers that have a handover.
inline constexpr std::string_view kTrainers[] = {"torchtitan", "megatron", "deepspeed"};

/// What starts the training of `scenario` with `trainer`, one of kTrainers. Errors: InvalidSpec for
/// a scenario that none of them can train: one of given times, or of images.
Result<Handover> hand_over(std::string_view trainer, const Scenario& scenario);

/// As JSON, with a final line end.
std::string handover_json(const Handover& plan);

}  // namespace lockstep
