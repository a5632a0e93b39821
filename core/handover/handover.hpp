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

/// TOML of torchtitan 0.2, whose names our keys have (its config/job_config.py).
Result<Handover> for_torchtitan(const Scenario& scenario);
/// Arguments of pretrain_gpt.py of Megatron-LM (its training/arguments.py and
/// core/transformer/transformer_config.py, 2026).
Result<Handover> for_megatron(const Scenario& scenario);
/// JSON of DeepSpeed (its runtime/config.py and runtime/zero/config.py). Degrees of other than data
/// parallelism are the script's; they are in `unsaid`.
Result<Handover> for_deepspeed(const Scenario& scenario);

/// One of these by its name. Errors: InvalidSpec for a scenario that none of them can train: one
/// of given times, or of images.
Result<Handover> hand_over(std::string_view trainer, const Scenario& scenario);

}  // namespace lockstep
