// Remedies: what would make a scenario fit that does not fit into its devices' memory.
#pragma once

#include <string>
#include <vector>

#include "core/plan/estimate/probe.hpp"
#include "core/plan/found_layout.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// A change after which the scenario fits.
struct Remedy {
  std::vector<std::string> keys;  // "activation_checkpoint.mode=full", as --set takes them
  Scenario scenario;              // with the change
  LayoutFigures figures;          // of a step with it
};

/// The remedies among: gradients added up in shards, recomputation (of norms and activations, of
/// attention, of whole blocks; of the first and the last also in as many blocks of each stage as it
/// takes), sequence parallelism, the smallest microbatch, states shared among the replicas that
/// there are, and states on the host. Each is tried alone, and where none suffices, in pairs, of
/// which three that do are enough. The batch, the model and the number of ranks stay. Fastest step
/// first; empty: none of them makes it fit. Requires that the scenario validates and does not fit.
std::vector<Remedy> remedies(const Scenario& scenario, const LayoutOracle& oracle,
                             const Prober& prober);

/// Lines for a reader, one per remedy: "--set KEY=VALUE  MEMORY  TIME". Says so if there is none.
std::string remedies_text(const std::vector<Remedy>& remedies);

}  // namespace lockstep
