// The scenario whose layouts `recommend` searches, and the question that its rules of thumb answer.
#pragma once

#include "cli/commands.hpp"
#include "core/base/result.hpp"
#include "core/plan/rules_of_thumb.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

struct Recommendation {
  Scenario scenario;  // 16 bits with masters in float32
  RuleQuestion question;
  std::vector<Error> warnings;  // such as what of a config.json is not simulated
};

/// Either of a model and a cluster by name, or of a decoder of so many parameters on A100s with so
/// much memory. Errors: InvalidSpec, and those of the scenario.
Result<Recommendation> recommendation_of(const RecommendArguments& arguments);

}  // namespace lockstep
