// Families of models in Hugging Face's transformers: a row says how a family is called there, how
// the keys of its config.json map to a model, and which of its tensors are which parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/hugging_face/keys.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// How a tensor there holds a parameter.
enum class HfHow : std::uint8_t {
  Whole,
  Transposed,   // [in, out] there, [out, in] here
  LessOne,      // a norm's weights, to which transformers adds 1
  ByHead,       // queries, keys and values of one head after the other
  PaddingRows,  // behind two rows that stand for padding (kHfPaddingRows)
};

/// The table of positions of RoBERTa (Liu et al. 2019) and OPT begins with rows that no token has.
inline constexpr std::int64_t kHfPaddingRows = 2;

/// `ours` is the name of a parameter without its block, and `theirs` that of a tensor; of a
/// block's, without the block's prefix. Several tensors that follow each other in a parameter are
/// written as "self_attn.{q,k,v}_proj.weight": three are those of queries, keys and values, two are
/// halves.
struct HfName {
  std::string_view ours, theirs;
  HfHow how = HfHow::Whole;
};

struct HfFamily {
  std::string_view type;         // model_type
  std::string_view model_class;  // its class, with the output layer
  /// Reads a model, or writes it; see HfKeys.
  void (*describe)(HfKeys& keys, ModelSpec& model);
  /// Before the names of a block's tensors, with # for its number. Empty: weights are not read.
  std::string_view block = {};
  std::vector<std::span<const HfName>> names = {};  // the first that has a parameter counts
  /// Beginnings and ends of tensors that hold nothing that is trained here.
  std::vector<std::string_view> leftovers = {};
  /// Where another family also describes a model of another activation, that one is taken for it.
  std::optional<Activation> activation = std::nullopt;
};

/// All of them. Of those that can be written, the first that describes a model is its family.
const std::vector<HfFamily>& hf_families();
/// The row of that model_type; null if there is none.
const HfFamily* find_hf_family(std::string_view type);
/// The family whose config.json says all of the model. Error Unsupported if none does.
Result<const HfFamily*> hf_family_of(const ModelSpec& spec);

}  // namespace lockstep
