// Whose: of which scenarios a key is. A key that is given where nothing reads it is a mistake.
#pragma once

#include "core/spec/scenario.hpp"

namespace lockstep {

/// "KEY applies only to WHAT: REMEDY" is the message where a scenario is none of these.
struct Whose {
  const char* what;
  bool (*has)(const Scenario& scenario);
  const char* remedy = "leave it out";
};

inline constexpr Whose kAll{"all scenarios", [](const Scenario&) { return true; }};
inline constexpr Whose kWithLayers{"models with layers", [](const Scenario& s) {
                                     return s.model.architecture != Architecture::Synthetic;
                                   }};
inline constexpr Whose kTransformers{"transformers", [](const Scenario& s) {
                                       return s.model.is_text() ||
                                              s.model.architecture == Architecture::Vit;
                                     }};
inline constexpr Whose kText{"transformers of text (gpt2, llama)",
                             [](const Scenario& s) { return s.model.is_text(); }};
inline constexpr Whose kRotary{
    "rotary positions", [](const Scenario& s) { return s.model.is_text() && s.model.is_rotary(); }};
inline constexpr Whose kEncoders{
    "models that predict masked tokens",
    [](const Scenario& s) { return s.model.is_text() && !s.model.causal; },
    "give model.causal=false, too"};
inline constexpr Whose kLatent{"latent attention",
                               [](const Scenario& s) { return s.model.is_latent(); },
                               "give model.kv_lora_rank, too"};
inline constexpr Whose kExperts{"models with experts",
                                [](const Scenario& s) { return s.model.experts > 0; },
                                "give model.experts, too"};
inline constexpr Whose kResnets{"batch norm, which only the resnet architecture has",
                                [](const Scenario& s) { return s.model.has_batch_norm(); }};
inline constexpr Whose kImages{"models of labelled images (resnet, vit)",
                               [](const Scenario& s) { return s.model.is_vision(); }};
inline constexpr Whose kVit{"the vit architecture", [](const Scenario& s) {
                              return s.model.architecture == Architecture::Vit;
                            }};

inline constexpr Whose kAdapters{"adapters (LoRA)",
                                 [](const Scenario& s) { return s.model.lora.rank != 0; },
                                 "give lora.rank, such as 8"};
inline constexpr Whose kFp8{"FP8 training",
                            [](const Scenario& s) { return s.training.fp8 != Fp8Format::None; },
                            "give fp8 = \"e4m3\" or \"hybrid\""};
inline constexpr Whose kFp8Blocks{"FP8 recipes with blocks",
                                  [](const Scenario& s) {
                                    return s.training.fp8 != Fp8Format::None &&
                                           !s.training.scales_tensors();
                                  },
                                  "give fp8_recipe = \"blockwise\" or \"mxfp8\""};
inline constexpr Whose kDelayed{"delayed FP8 scaling",
                                [](const Scenario& s) {
                                  return s.training.fp8 != Fp8Format::None &&
                                         s.training.fp8_recipe == Fp8Scaling::Delayed;
                                },
                                "give fp8_recipe = \"delayed\""};
inline constexpr Whose kScaledLoss{
    "gradients in float16", [](const Scenario& s) { return s.training.scales_loss(); },
    "bfloat16 and float32 have the range that gradients need; leave it out"};
inline constexpr Whose kDocuments{
    "documents in a sequence",
    [](const Scenario& s) { return s.training.has_documents() || s.training.reset_position_ids; },
    "give reset_attention_mask or eod_mask_loss, too"};

inline constexpr Whose kInterleaved{
    "the schedule Interleaved1F1B",
    [](const Scenario& s) { return rules_of(s.strategy.pipeline_parallel_schedule).takes_groups; }};
inline constexpr Whose kDividedVocabulary{
    "vocabularies that a pipeline divides",
    [](const Scenario& s) { return s.strategy.vocabulary_parallel_pipeline; },
    "give vocabulary_parallel_pipeline=true"};
inline constexpr Whose kPipeDream{"PipeDream and PipeDream-2BW", [](const Scenario& s) {
                                    return s.strategy.weight_versions() != WeightVersions::One;
                                  }};
inline constexpr Whose kQuantized{
    "quantized collectives", [](const Scenario& s) { return s.strategy.sends_codes(); },
    "give zero_quantized_weights=true or zero_quantized_gradients=true"};
inline constexpr Whose kQuantizedGradients{
    "quantized gradients", [](const Scenario& s) { return s.strategy.zero_quantized_gradients; },
    "give zero_quantized_gradients=true"};
inline constexpr Whose kPowerSgd{"PowerSGD",
                                 [](const Scenario& s) { return s.strategy.power_sgd.on(); },
                                 "give matrix_approximation_rank, such as 4"};
inline constexpr Whose kLocalSteps{"local SGD and DiLoCo",
                                   [](const Scenario& s) { return s.strategy.trains_apart(); },
                                   "give method = \"local_sgd\" or \"diloco\""};
inline constexpr Whose kDiLoCo{
    "DiLoCo's outer optimizer",
    [](const Scenario& s) { return s.strategy.local_sgd.method == SemiSyncMethod::DiLoCo; },
    "give method = \"diloco\""};

}  // namespace lockstep
