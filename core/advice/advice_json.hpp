// Advice JSON: what `recommend --json` prints.
#pragma once

#include <nlohmann/json.hpp>

#include "core/advice/recommend.hpp"

namespace lockstep {

/// Layouts that were simulated have their figures and their scenario as text; null is none.
nlohmann::ordered_json advice_json(const Advice& advice);

}  // namespace lockstep
