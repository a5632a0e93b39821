// SimBackend: runs a program on a virtual clock, with times from a cost model.
#pragma once

#include <memory>
#include <string_view>

#include "core/cluster/what_if.hpp"
#include "core/run/backend.hpp"

namespace lockstep {

/// Simulates one step, whatever RunOptions::steps says, because all steps are alike. The trace has
/// no StepResults, and ranks that cannot differ share spans (Trace::same_as). The state of the
/// result is empty. The result is deterministic to the byte.
class SimBackend final : public Backend {
 public:
  explicit SimBackend(const WhatIfSpec& what_if = {}) : what_if_(what_if) {}
  std::string_view name() const override { return "sim"; }
  Result<RunResult> run(const Program& program, const ClusterSpec& cluster,
                        const RunOptions& options) override;

 private:
  WhatIfSpec what_if_;
};

std::unique_ptr<Backend> make_sim_backend(const WhatIfSpec& what_if = {});

}  // namespace lockstep
