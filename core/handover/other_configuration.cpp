#include "core/handover/other_configuration.hpp"

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

struct Other {
  std::string_view what, instead;
  std::vector<std::string_view> keys;  // at the beginning of lines; all of one group are there
};

/// Whether a line begins so, behind blanks and quotes.
bool has_line(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '"')) --begin;
    if (begin == 0 || text[begin - 1] == '\n') return true;
  }
  return false;
}

const std::vector<Other>& others() {
  static const std::vector<Other> rows = {
      {"a configuration of Hugging Face Accelerate (YAML)",
       "import the file that its deepspeed_config_file names with `lockstep import deepspeed`; for "
       "FSDP write a scenario with data_parallel_shard_degree",
       {"compute_environment:", "distributed_type:"}},
      {"a configuration of axolotl (YAML)",
       "import the JSON that its key deepspeed names with `lockstep import deepspeed --model "
       "config.json`",
       {"base_model:", "datasets:"}},
      {"a configuration of LLaMA-Factory (YAML)",
       "import the JSON that its key deepspeed names with `lockstep import deepspeed --model "
       "config.json`",
       {"model_name_or_path:", "finetuning_type:"}},
      {"a configuration of NeMo (YAML)",
       "import the arguments that it gives to Megatron-LM (it prints them at the start) with "
       "`lockstep import megatron`",
       {"trainer:", "exp_manager:"}},
      {"a configuration of NeMo (YAML)",
       "import the arguments that it gives to Megatron-LM (it prints them at the start) with "
       "`lockstep import megatron`",
       {"trainer:", "tensor_model_parallel_size:"}},
      {"a configuration of GPT-NeoX (YAML)",
       "import its arguments by the names of Megatron-LM (--num-layers ...), a line each, with "
       "`lockstep import megatron`",
       {"pipe-parallel-size", "num-layers"}},
      {"a configuration of GPT-NeoX (YAML)",
       "import its arguments by the names of Megatron-LM (--num-layers ...), a line each, with "
       "`lockstep import megatron`",
       {"pipe_parallel_size", "num_layers"}},
      {"a configuration of Megatron Core (YAML, --yaml-cfg)",
       "import its arguments as pretrain_gpt.py has them (--num-layers ...) with `lockstep import "
       "megatron`",
       {"language_model:", "model_parallel:"}},
      {"a registry of torchtitan (Python), as it has them since 2026",
       "import TOML of torchtitan 0.2 with the same settings, or name the model with --model",
       {"from torchtitan", "def "}},
      {"a recipe of NeMo (Python)",
       "import the arguments that it gives to Megatron-LM with `lockstep import megatron`",
       {"from nemo", "def "}},
  };
  return rows;
}

}  // namespace

std::optional<std::string> other_configuration(std::string_view text) {
  for (const Other& other : others()) {
    const bool is_it = std::all_of(other.keys.begin(), other.keys.end(),
                                   [&](std::string_view key) { return has_line(text, key); });
    if (is_it)
      return std::string(other.what) + ", which is not read: " + std::string(other.instead);
  }
  return std::nullopt;
}

}  // namespace lockstep
