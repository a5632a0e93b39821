// SimBackend: runs a program on a cost model and a virtual clock.
#pragma once

#include <memory>
#include <string_view>

#include "core/cluster/what_if.hpp"
#include "core/run/backend.hpp"

namespace lockstep {

/// One step is simulated whatever RunOptions::steps says (all steps are alike); the trace has no
/// StepResults, and ranks that cannot differ share spans (Trace::same_as). The state of the result
/// is empty. Deterministic to the byte.
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
