// config.json of Hugging Face's transformers: read as a model, and written from one.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

struct HfFamily;  // families.hpp

struct HfModel {
  ModelSpec model;
  const HfFamily* family = nullptr;   // of which it is
  std::vector<std::string> warnings;  // of keys that change numbers there and not here
  /// By key of [training] that it says nothing of: a warning, unless the scenario gives that key.
  std::map<std::string, std::string> dropouts;
};
/// Reads the config.json of a family (hf_families()), in the spellings of transformers 4 and 5.
/// `path` is a file, or a folder with one; it becomes the name of the model and begins the message
/// of an error, because the error has no place in the scenario.
Result<HfModel> read_hf_config(const std::string& path);
Result<HfModel> parse_hf_config(std::string_view json, const std::string& path);

/// The config.json of a model, for transformers. Error Unsupported for a model of no family.
Result<std::string> print_hf_config(const ModelSpec& spec, const std::string& dtype);

}  // namespace lockstep
