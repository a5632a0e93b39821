// Layout: the names of the files of a checkpoint, and which tensor lies in which.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/ir/training_state.hpp"

namespace lockstep::checkpoint {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kLatestFile = "latest";
inline constexpr std::string_view kStepPrefix = "step-";

/// The parameter of an optimizer tensor: "adam_m.x" gives "x"; empty if `name` is another tensor's.
std::string_view parameter_of(std::string_view name);
/// Whether an optimizer tensor is not of its parameter's shape: moments of its rows or columns
/// (Adafactor), or its right factor of low rank (PowerSGD).
bool has_own_shape(std::string_view name);
/// The file in which a tensor lies.
const char* file_of(std::string_view tensor);

/// The number in "step-N"; nullopt for anything else.
std::optional<int> step_of(std::string_view name);
/// The number that `text` is; nullopt unless it is a decimal count and nothing else.
std::optional<int> parse_count(std::string_view text);

/// Both files of a state, by name.
Result<std::map<std::string, SafetensorsIndex>> lay_out_files(const StateHead& head);

}  // namespace lockstep::checkpoint
