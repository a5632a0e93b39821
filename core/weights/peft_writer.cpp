#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/checkpoint/disk_file.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/hugging_face/tensors.hpp"
#include "core/weights/adapters.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {
namespace {

/// The end of a module's name by which PEFT finds all of its kind: "q_proj"; for GPT-2, which has
/// two called c_proj in a block, with the part before.
std::string kind_of(const std::string& module, bool gpt2) {
  const std::size_t last = module.rfind('.');
  return module.substr((gpt2 ? module.rfind('.', last - 1) : last) + 1);
}

}  // namespace

Result<void> write_peft_adapters(const StateReader& state, const ModelSpec& spec,
                                 const std::string& base, const std::string& folder) {
  namespace fs = std::filesystem;
  if (auto known = check_adapters(state, spec); !known) return known;
  const auto family = hf_family_of(without_adapters(spec));
  if (!family) return family.error();
  const bool gpt2 = (*family)->type == "gpt2";
  std::map<std::string, Tensor> tensors;
  std::set<std::string> modules;
  for (const Parameter& weight : parameters_of(without_adapters(spec))) {
    const std::string down = weight.name + std::string(kAdapterDown);
    const std::string up = weight.name + std::string(kAdapterUp);
    if (!state.head().tensors.contains(down)) continue;
    const auto parts = hf_tensors(**family, spec, weight);
    if (!parts) return parts.error();
    const std::int64_t inputs = weight.shape.back(), rank = spec.lora.rank;
    const bool experts = weight.shape.size() == 3;  // each with an A of its own
    const auto add = [&](const std::string& name, const std::string& from, std::int64_t first_row,
                         std::vector<std::int64_t> shape) -> Result<void> {
      Tensor tensor{state.head().tensors.at(from).dtype, std::move(shape), {}};
      const std::int64_t width = tensor.shape[1] * size_of(tensor.dtype);
      tensor.data.resize(to_size(tensor.shape[0] * width));
      if (auto got = state.read(from, first_row * width, tensor.data); !got) return got;
      tensors["base_model.model." + name] = std::move(tensor);
      return {};
    };
    for (const HfTensor& part : *parts) {
      if (part.count > 0) return no_adapters(part);
      const std::string module = part.name.substr(0, part.name.rfind('.'));
      const std::int64_t rows = part.transposed ? part.shape[1] : part.shape[0];
      modules.insert(kind_of(module, gpt2));
      const std::int64_t expert = experts ? part.begin / (weight.shape[1] * inputs) : 0;
      if (auto added = add(module + ".lora_A.weight", down, expert * rank, {rank, inputs}); !added)
        return added;
      if (auto added = add(module + ".lora_B.weight", up, part.begin / inputs, {rows, rank});
          !added) {
        return added;
      }
    }
  }
  nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                   {"task_type", "CAUSAL_LM"},
                                   {"base_model_name_or_path", base},
                                   {"r", spec.lora.rank},
                                   {"lora_alpha", spec.lora.alpha},
                                   {"lora_dropout", spec.lora.dropout},
                                   {"bias", "none"},
                                   {"fan_in_fan_out", gpt2},
                                   {"inference_mode", true},
                                   {"target_modules", modules}};
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, &tensor});
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return Error{ErrorKind::Device, folder + ": " + code.message(), std::nullopt};
  if (auto wrote = write_safetensors((fs::path(folder) / "adapter_model.safetensors").string(),
                                     named, {{"format", "pt"}});
      !wrote) {
    return wrote;
  }
  return replace_file((fs::path(folder) / "adapter_config.json").string(), config.dump(2) + "\n");
}

}  // namespace lockstep
