// Tensors: which tensors of a model in the layout of Hugging Face's transformers are which
// parameters here. Weights of linear layers are [out, in] in both, but for GPT-2's, which
// transformers keeps as [in, out]. Queries, keys and values are one parameter here and often three
// tensors there; so are gate and up projection, and the experts of a block.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/hugging_face/families.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// A block of rows of a parameter here, which is a tensor there or a part of one.
struct HfTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // of the tensor, as it is there
  std::int64_t begin = 0;           // element of the parameter with which the block begins
  bool transposed = false;          // [in, out] there, [out, in] here
  std::int64_t skipped = 0;         // elements of the tensor before the block
  std::int64_t count = 0;           // of the block; 0: the rest of the tensor
  double less = 0;                  // what is stored there is less by so much
  std::int64_t elements() const;    // of the block
};

/// The blocks that a parameter of a model of that family consists of, in their order. Error
/// Unsupported for a parameter that the family does not have.
Result<std::vector<HfTensor>> hf_tensors(const HfFamily& family, const ModelSpec& spec,
                                         const Parameter& parameter);

/// Whether a tensor of a file holds nothing that is trained: masks and inverse frequencies, which
/// older versions kept, and a second copy of tied embeddings.
bool is_hf_leftover(const HfFamily& family, const ModelSpec& spec, std::string_view name);

}  // namespace lockstep
