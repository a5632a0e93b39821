// Words: what the handovers share. Internal to core/handover.
#pragma once

#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/handover/handover.hpp"

namespace lockstep {

/// A number as it is read back exactly, "3e-04" or "8".
std::string number_text(double value);

/// Says that a setting of the scenario has no word there, if `set`.
void leave_unsaid(std::vector<std::string>& unsaid, bool set, std::string what);

/// "torchrun --nnodes 8 --nproc-per-node 8": a process for each rank of the cluster.
std::string torchrun(const Scenario& scenario);

// One for each trainer: they set `text` and `launch`, and add to `unsaid`.

/// TOML of torchtitan 0.2.x (tested: 0.2.1, 0.2.2), whose names our keys have (its
/// config/job_config.py).
void hand_to_torchtitan(const Scenario& scenario, Handover& h);
/// Arguments of pretrain_gpt.py of Megatron-LM (its training/arguments.py and
/// core/transformer/transformer_config.py, 2026).
void hand_to_megatron(const Scenario& scenario, Handover& h);
/// JSON of DeepSpeed (its runtime/config.py and runtime/zero/config.py). Degrees of other than data
/// parallelism are the script's; they are in `unsaid`.
void hand_to_deepspeed(const Scenario& scenario, Handover& h);

}  // namespace lockstep
