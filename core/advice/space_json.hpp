// Space JSON: what a search has found, as `search --json` prints it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/plan/best_first.hpp"
#include "core/plan/sensitivity.hpp"

namespace lockstep {

/// A layout that was simulated in full, with its scenario as text. `unit` is that of throughput
/// (trained_on()).
nlohmann::ordered_json found_json(const FoundLayout& found, const std::string& unit);

/// The layouts that were simulated, the best of each family and why others lost, the front of time
/// against memory, and how many layouts there were.
nlohmann::ordered_json space_json(const SpaceResult& result, const std::string& unit);

/// What the choice depends on.
nlohmann::ordered_json sensitivity_json(const SensitivityReport& report);

}  // namespace lockstep
