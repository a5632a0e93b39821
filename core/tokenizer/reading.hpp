// Reading: what those share that read tokenizer.json. Internal to core/tokenizer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/result.hpp"

namespace lockstep {

/// Error Unsupported for a step or a kind of tokenizer.
inline Error unsupported_step(const std::string& what) {
  return {ErrorKind::Unsupported,
          what + " is not known here; shards of its tokens can be made elsewhere (docs/models.md)",
          std::nullopt};
}
inline Error damaged_tokenizer(const std::string& what) {
  return {ErrorKind::Parse, what, std::nullopt};
}

/// Whether a value is the number of a token: as many as any vocabulary has.
inline bool is_token_id(const nlohmann::json& json) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return json.is_number_integer() && json >= 0 && json < kMost;
}

/// The "type" of a step; empty if it is none.
inline std::string type_of_step(const nlohmann::json& json) {
  return json.is_object() ? json.value("type", std::string()) : std::string();
}

}  // namespace lockstep
