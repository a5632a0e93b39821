// Weight files: reads and writes weights in the layout of Hugging Face's transformers, a piece at a
// time, so that models of any size pass through little memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/ir/training_state.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// The parameters of a transformer, each once, with whole shapes.
std::vector<Parameter> parameters_of(const ModelSpec& spec);

/// Whether a state has the parameter, in its shape. Errors: InvalidSpec.
Result<void> check_parameter(const StateReader& state, const Parameter& parameter);

/// Opens model.safetensors of a folder, or without it the files that model.safetensors.index.json
/// names, as a state of step 0 whose parameters have the type `dtype`, whatever type they have in
/// the files. Errors name the file and the tensor: InvalidSpec if something is missing or has
/// another shape than the model's; Parse for files that are damaged; Unsupported for parameters of
/// element types other than float64, float32, bfloat16 and float16, or for tensors that the model
/// has no use for.
Result<std::unique_ptr<StateReader>> open_hf_weights(const std::string& folder,
                                                     const ModelSpec& spec, DType dtype);

struct HfExport {
  DType dtype = DType::F32;                         // of the tensors that are written
  std::int64_t shard_bytes = 5'000'000'000;         // most bytes of a file
  std::function<void(double share)> on_progress{};  // from 0 to 1
};
/// Writes a state's parameters into `folder` as model.safetensors, or as several files with
/// model.safetensors.index.json, beside config.json. A file appears whole or not at all; files of
/// weights that were there, and that a reader would take for these, are removed. Errors:
/// InvalidSpec if the state lacks a parameter, Device if a file cannot be written.
Result<void> write_hf_weights(const StateReader& state, const ModelSpec& spec,
                              const std::string& folder, const HfExport& options);

}  // namespace lockstep
