// The keys of a scenario file as people read of them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/spec/scenario.hpp"

namespace lockstep {

struct ScenarioKey {
  /// As --set takes it: "training.seq_len".
  std::string name;
  /// Its default as TOML; empty where a preset or another key decides.
  std::string value = {};
  /// The numbers that it may be, "[0, 1)", or names; empty: any of its type.
  std::string values = {};
  /// Of which scenarios it is, "transformers"; empty: of all.
  std::string whose = {};
  /// What docs/scenario says of it, without marks of Markdown.
  std::string meaning = {};
};
/// All keys, in the order of core/spec/keys/keys.hpp.
const std::vector<ScenarioKey>& scenario_keys();

const ScenarioKey* find_key(std::string_view name);  // null if there is none

/// The values of all keys in a scenario as TOML, by name; without those that it leaves open.
using KeyValues = std::map<std::string, std::string, std::less<>>;
KeyValues values_of_keys(const Scenario& scenario);

/// The section ("training") that has a key of this name; empty if none or several.
std::string section_of_key(std::string_view key);

}  // namespace lockstep
