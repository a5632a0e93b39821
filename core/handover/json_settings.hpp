// JSON settings: a configuration in JSON, and where in the text each of its values stands. Internal
// to core/handover.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace lockstep {

struct JsonSettings {
  nlohmann::ordered_json values;  // an object
  /// By the dotted name of a value, "optimizer.params.lr": where it begins. Elements of lists have
  /// none.
  std::map<std::string, SourceSpan, std::less<>> places;
};

/// Reads an object. Error Parse, with line and column, what stands there and what is expected: text
/// that is not JSON, an object that has a key twice, or something else than an object.
Result<JsonSettings> read_json_settings(std::string_view text, const std::string& file);

}  // namespace lockstep
