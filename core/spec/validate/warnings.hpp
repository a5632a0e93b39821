// Warnings: what a scenario may do, but a user rarely means.
#pragma once

#include <string>
#include <vector>

#include "core/spec/scenario.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {

struct Warning {
  std::string key;      // "parallelism.sync_batch_norm"
  std::string message;  // what happens, and what would avoid it
  bool operator==(const Warning&) const = default;
};

/// Mistakes of distributed training that run without an error: batch norm on the statistics of few
/// images, an order of samples that never changes, a scaled learning rate without warm-up, bfloat16
/// on a card that computes it as float32, a key of another optimizer. Requires
/// validate(scenario).empty().
std::vector<Warning> warnings(const Scenario& scenario);

}  // namespace lockstep
