#include "core/hugging_face/members.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace lockstep {
namespace {

/// Keys that change no number of a training step.
constexpr auto kHarmless = std::to_array<std::string_view>({"_attn_implementation",
                                                            "_name_or_path",
                                                            "architectures",
                                                            "attn_implementation",
                                                            "auto_map",
                                                            "bad_words_ids",
                                                            "bos_token_id",
                                                            "cache_implementation",
                                                            "chunk_size_feed_forward",
                                                            "decoder_start_token_id",
                                                            "dtype",
                                                            "eos_token_id",
                                                            "finetuning_task",
                                                            "id2label",
                                                            "initializer_range",
                                                            "is_decoder",
                                                            "keys_to_ignore_at_inference",
                                                            "label2id",
                                                            "max_length",
                                                            "model_type",
                                                            "n_ctx",
                                                            "output_attentions",
                                                            "output_hidden_states",
                                                            "pad_token_id",
                                                            "pretraining_tp",
                                                            "problem_type",
                                                            "reorder_and_upcast_attn",
                                                            "return_dict",
                                                            "sep_token_id",
                                                            "summary_activation",
                                                            "summary_first_dropout",
                                                            "summary_proj_to_labels",
                                                            "summary_type",
                                                            "summary_use_proj",
                                                            "task_specific_params",
                                                            "tokenizer_class",
                                                            "torch_dtype",
                                                            "torchscript",
                                                            "transformers_version",
                                                            "use_cache",
                                                            "vocab_file",
                                                            "gradient_checkpointing",
                                                            "num_labels"});

}  // namespace

void HfMembers::warn_of_rest() {
  for (const auto& [key, value] : object_.items()) {
    const bool harmless = std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end();
    if (harmless || asked_.contains(key) || value.is_null() || value == false) continue;
    warn("'" + key + "' is not used, and may change what the model computes");
  }
}

std::int64_t HfMembers::read_integer(const char* key, const nlohmann::json& value) {
  if (!value.is_number_integer()) return fail(std::string("'") + key + "' is not an integer");
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost) {
    return fail(std::string("'") + key + "' is too large: " + value.dump());
  }
  return value.get<std::int64_t>();
}

}  // namespace lockstep
