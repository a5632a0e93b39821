// validate: whether a scenario can be lowered, and everything that is wrong with it if not.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {

/// All faults, not the first; empty: safe to lower. `where` of each error is absent; its `key`
/// (for example "parallelism.pipeline_parallel_degree") lets the parser add the user's line.
struct Fault {
  std::string key;
  Error error;
};
std::vector<Fault> validate(const Scenario& scenario);
/// Likewise of a profile's keys, each by itself, by their names in its file ("device.memory_gb").
std::vector<Fault> faults_of_keys(const ClusterSpec& cluster);
std::vector<Fault> faults_of_keys(const FrameworkSpec& framework);

}  // namespace lockstep
