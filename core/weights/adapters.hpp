// Adapters: low-rank adapters (LoRA) merged into the weights beside which they lie, read from, or
// written in, the layout of Hugging Face's PEFT.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "core/hugging_face/tensors.hpp"
#include "core/ir/training_state.hpp"
#include "core/spec/model.hpp"

namespace lockstep {

/// The model without its adapters.
ModelSpec without_adapters(const ModelSpec& spec);

/// The error of a layer whose tensor has rows of several kinds by head, so that an adapter of one
/// kind is none of the tensor's.
Error no_adapters(const HfTensor& tensor);

/// Whether the state has all adapters of the model, in their shapes. Errors: InvalidSpec.
Result<void> check_adapters(const StateReader& state, const ModelSpec& spec);

/// A state of the model without adapters, which computes the same: every weight W that has an
/// adapter reads as W + alpha / rank · B A, rounded to the type of W. `state` must outlive it.
/// Error InvalidSpec if an adapter is missing or has another shape than the model's.
Result<std::unique_ptr<StateReader>> merge_adapters(const StateReader& state,
                                                    const ModelSpec& spec);

/// A state that computes what `state`, of a model without adapters, computes with the adapters of
/// PEFT in `folder` (adapter_config.json, adapter_model.safetensors): every weight W reads as W +
/// scale · B A, rounded to its type, where the scale is lora_alpha / rank, or lora_alpha / √rank
/// with use_rslora. `state` must outlive it. Errors: Parse for damaged files; InvalidSpec for an
/// adapter of another shape than its layer's; Unsupported for adapters that more than this belongs
/// to (DoRA, biases, whole modules, alpha_pattern) and for layers that the model does not have.
Result<std::unique_ptr<StateReader>> merge_peft_adapters(const StateReader& state,
                                                         const ModelSpec& spec,
                                                         const std::string& folder);

/// Writes the adapters alone into `folder`: adapter_model.safetensors and adapter_config.json, for
/// PeftModel.from_pretrained. An adapter of queries, keys and values together becomes one for each
/// of the three, with the same A and their rows of B; so does one of gate and up projection. `base`
/// is where PEFT finds the model. Errors: those of merge_adapters(); Unsupported for a model that
/// transformers has no layout for; Device if a file cannot be written.
Result<void> write_peft_adapters(const StateReader& state, const ModelSpec& spec,
                                 const std::string& base, const std::string& folder);

}  // namespace lockstep
