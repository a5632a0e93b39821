// Recommend simulation: simulates the strategies between which the rules of thumb choose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/plan/rules_of_thumb.hpp"

namespace lockstep {

struct SimulatedChoice {
  std::string strategy;          // "FSDP 8", "TP 4 + FSDP 2, full recomputation"
  std::optional<Report> report;  // empty if it cannot be simulated; `failure` says why
  std::string failure;           // "does not fit", or another reason
};

/// Simulates a decoder transformer of about as many parameters, in bfloat16 with float32
/// masters, on A100s with the memory and the interconnect that the question names. Every strategy
/// takes the same eight sequences of 2048 tokens per GPU and step, in microbatches of one per GPU.
/// Tensor parallelism comes with sequence parallelism, and activations are recomputed if the model
/// does not fit otherwise.
std::vector<SimulatedChoice> simulate_choices(const RuleQuestion& question);

/// The fastest of those that fit; null if none does.
const SimulatedChoice* fastest(const std::vector<SimulatedChoice>& choices);

/// The most GPUs for which simulate_choices() is called.
inline constexpr int kMostSimulatedGpus = 512;

}  // namespace lockstep
