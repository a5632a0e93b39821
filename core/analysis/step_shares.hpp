// StepShares: how much each traced step counts in means over steps.
#pragma once

#include <cstdint>
#include <map>

#include "core/ir/program.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// Steps count alike, with a share of 1, unless replicas train apart and both steps that bring them
/// together and steps that do not were traced. These then count as often as they come: of
/// Program::sync_every steps one brings the replicas together. The shares of all traced steps add
/// up to their number.
class StepShares {
 public:
  /// `program` may be null: steps then count alike. Linear in the spans.
  StepShares(const Trace& trace, const Program* program);
  double of(std::int32_t step) const {
    if (synchronizes_.empty()) return 1;
    return synchronizes(step) ? synchronizing_ : apart_;
  }
  /// Whether a traced step brought replicas together.
  bool synchronizes(std::int32_t step) const {
    const auto found = synchronizes_.find(step);
    return found != synchronizes_.end() && found->second;
  }

 private:
  std::map<std::int32_t, bool> synchronizes_;  // by traced step; empty without such replicas
  double synchronizing_ = 1, apart_ = 1;
};

}  // namespace lockstep
