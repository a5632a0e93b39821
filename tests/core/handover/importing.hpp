// What tests of imports share: a scenario from text, a trainer's file as a plan, and what is lost
// on the way there and back.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "core/handover/handover.hpp"
#include "core/handover/plan_import.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/core/handover/scenarios.hpp"

namespace lockstep {

inline Scenario parsed(const std::string& text, const std::vector<std::string>& set = {}) {
  const LoadedScenario loaded = parse_scenario(text, "a.toml", set);
  INFO((loaded.ok() ? "" : to_string(loaded.errors.front())) << "\n" << text);
  REQUIRE(loaded.ok());
  return loaded.points.front().scenario;
}

inline PlanImport imported(Trainer trainer, const std::string& text,
                           const PlanOptions& options = {}) {
  const Result<PlanImport> plan = import_plan(trainer, text, "plan", options);
  INFO((plan.ok() ? "" : to_string(plan.error())));
  REQUIRE(plan.ok());
  return *plan;
}

/// The keys in which two scenarios differ, with both values.
inline std::vector<std::string> differing_lines(const Scenario& a, const Scenario& b) {
  std::istringstream first(print_scenario(a)), second(print_scenario(b));
  std::vector<std::string> found;
  std::string x, y;
  while (std::getline(first, x) && std::getline(second, y)) {
    if (x != y && !x.starts_with("name = ")) found.push_back(x + " | " + y);
  }
  return found;
}

/// What makes a scenario one that is simulated as the trainer's files are, which lack
/// --tp-comm-overlap and --fp8-param-gather unless they are added.
inline std::vector<std::string> run_by(Trainer trainer) {
  if (trainer == Trainer::Megatron) {
    return {"framework.preset=megatron-core", "framework.overlaps_products=false",
            "framework.fp8_parameters=false"};
  }
  return {trainer == Trainer::Torchtitan ? "framework.preset=torchtitan"
                                         : "framework.preset=fsdp-eager"};
}

/// What is lost on the way to a trainer's words and back.
inline std::vector<std::string> lost_in(Trainer trainer, const std::string& text,
                                        const PlanOptions& options) {
  const Scenario before = parsed(text, run_by(trainer));
  const Result<Handover> there = hand_over(command_name(trainer), before);
  REQUIRE(there.ok());
  const PlanImport back = imported(trainer, there->text, options);
  for (const std::string& lost : back.lost) UNSCOPED_INFO(lost);
  CHECK(back.lost.empty());
  return differing_lines(before, parsed(back.text));
}

using Lines = std::vector<std::string>;

inline bool mentions(const std::vector<std::string>& sentences, const std::string& part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

}  // namespace lockstep
