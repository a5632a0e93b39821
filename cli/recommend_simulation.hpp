// What the simulator says of the strategies that the rules of thumb choose between.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/plan/rules_of_thumb.hpp"

namespace lockstep {

struct SimulatedChoice {
  std::string strategy;          // "FSDP 8", "TP 4 + FSDP 2, full recomputation"
  std::optional<Report> report;  // none: see `failure`
  std::string failure;           // "does not fit", or why it cannot be
};

/// A decoder transformer of about as many parameters, in bfloat16 with float32 masters, on A100s of
/// the memory and interconnect asked for. Every strategy takes the same eight sequences of 2048
/// tokens per GPU and step, in microbatches of one per GPU; tensor parallelism comes with sequence
/// parallelism, sharding adds gradients up in shards, and what does not fit otherwise recomputes
/// its activations.
std::vector<SimulatedChoice> simulate_choices(const RuleQuestion& question);

/// The fastest of those that fit; null: none does.
const SimulatedChoice* fastest(const std::vector<SimulatedChoice>& choices);

/// Most GPUs that simulate_choices is asked about.
inline constexpr int kMostSimulatedGpus = 512;

}  // namespace lockstep
