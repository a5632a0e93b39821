// Model source: a trained or imported model, wherever it lies.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "core/ir/training_state.hpp"
#include "core/spec/model.hpp"
#include "core/tokenizer/tokenizer.hpp"

namespace lockstep {

struct ModelSource {
  ModelSpec model;
  std::unique_ptr<StateReader> weights;
  DType dtype = DType::F32;              // of the weights
  std::unique_ptr<Tokenizer> tokenizer;  // null if none was found and tokens are not bytes
  std::vector<Error> warnings;
};

/// Opens a run folder, with its newest checkpoint, or a folder in the layout of Hugging Face's
/// transformers. `tokenizer` names a file or folder; empty: what the folder has, or bytes for a
/// vocabulary of 256. Errors are those of what is opened.
Result<ModelSource> open_model(const std::string& path, const std::string& tokenizer = {});

}  // namespace lockstep
