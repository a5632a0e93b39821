// Hugging Face: which tensors of a model in the layout of transformers are which parameters here.
// Weights of linear layers are [out, in] in both, but for GPT-2's, which transformers keeps as [in,
// out]. Queries, keys and values are one parameter here and three tensors there (but for GPT-2's);
// so are gate and up projection, and the experts of a block.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// One tensor there, which is a block of rows of a parameter here.
struct HfTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // as it is there
  std::int64_t begin = 0;           // element of the parameter with which it begins
  bool transposed = false;          // [in, out] there, [out, in] here
  std::int64_t skipped = 0;         // elements with which it begins there and that no parameter has
  std::int64_t elements() const;    // of the parameter
};

/// The tensors that a parameter consists of, in their order. Error Unsupported for a model that
/// transformers has no layout for.
Result<std::vector<HfTensor>> hf_tensors(const ModelSpec& spec, const Parameter& parameter);

/// Whether a tensor of a file holds nothing that is trained: masks and inverse frequencies, which
/// older versions kept, and a second copy of tied embeddings.
bool is_hf_leftover(const ModelSpec& spec, const std::string& name);

/// The config.json of a model, for transformers. Error Unsupported as above.
Result<std::string> print_hf_config(const ModelSpec& spec, const std::string& dtype);

}  // namespace lockstep
