// Lists: the presets that a scenario can name, with their figures.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace lockstep {

/// An object for each, with the same keys: the columns of `lockstep list`.
std::vector<nlohmann::ordered_json> list_models();
std::vector<nlohmann::ordered_json> list_clusters();

}  // namespace lockstep
