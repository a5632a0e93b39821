#include "core/weights/adapters.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/convert.hpp"
#include "core/base/index_vector.hpp"
#include "core/checkpoint/disk_file.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/weights/hugging_face.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {
namespace {

/// Elements [begin, begin + count) of a tensor.
Result<std::vector<double>> read_values(const StateReader& state, const std::string& name,
                                        std::int64_t begin, std::int64_t count) {
  const DType type = state.head().tensors.at(name).dtype;
  std::vector<std::byte> raw(to_size(count * size_of(type)));
  if (auto got = state.read(name, begin * size_of(type), raw); !got) return got.error();
  std::vector<double> values(to_size(count));
  convert(raw, type, std::as_writable_bytes(std::span(values)), DType::F64);
  return values;
}

/// Whether the state has all adapters of the model, in their shapes.
Result<void> check_adapters(const StateReader& state, const ModelSpec& spec) {
  for (const Parameter& parameter : parameters_of(spec)) {
    if (!is_adapter(parameter)) continue;
    if (auto there = check_parameter(state, parameter); !there) return there;
  }
  return {};
}

class MergedState final : public StateReader {
 public:
  MergedState(const StateReader& state, const ModelSpec& spec)
      : state_(state), scale_(spec.lora.scale()) {
    head_ = state.head();
    for (const Parameter& parameter : parameters_of(spec)) {
      if (!is_adapter(parameter)) continue;
      head_.tensors.erase(parameter.name);
      adapted_.insert(parameter.name.substr(0, parameter.name.rfind('.')));
    }
  }

  Result<void> read(const std::string& tensor, std::int64_t begin,
                    std::span<std::byte> to) const override {
    if (!adapted_.contains(tensor)) return state_.read(tensor, begin, to);
    const TensorInfo& info = head_.tensors.at(tensor);
    const std::int64_t size = size_of(info.dtype), inputs = info.shape[1];
    const std::int64_t first = begin / size;
    const std::int64_t end = first + static_cast<std::int64_t>(to.size()) / size;
    auto values = read_values(state_, tensor, first, end - first);
    if (!values) return values.error();
    const std::lock_guard lock(mutex_);
    if (auto known = keep_down(tensor, inputs); !known) return known;
    const std::int64_t rank = static_cast<std::int64_t>(down_.size()) / inputs;
    for (std::int64_t row = first / inputs; row * inputs < end; ++row) {
      const auto up = read_values(state_, tensor + std::string(kAdapterUp), row * rank, rank);
      if (!up) return up.error();
      const std::int64_t from = std::max(first, row * inputs);
      const std::int64_t until = std::min(end, (row + 1) * inputs);
      for (std::int64_t k = 0; k < rank; ++k) {
        const double factor = scale_ * (*up)[to_size(k)];
        for (std::int64_t i = from; i < until; ++i) {
          (*values)[to_size(i - first)] += factor * down_[to_size(k * inputs + i - row * inputs)];
        }
      }
    }
    convert(std::as_bytes(std::span(*values)), DType::F64, to, info.dtype);
    return {};
  }

 private:
  /// Keeps the A of the tensor that was asked for last, because every piece of it needs the whole.
  Result<void> keep_down(const std::string& tensor, std::int64_t inputs) const {
    if (down_of_ == tensor) return {};
    const std::string name = tensor + std::string(kAdapterDown);
    auto down = read_values(state_, name, 0, state_.head().tensors.at(name).shape[0] * inputs);
    if (!down) return down.error();
    down_ = std::move(*down);
    down_of_ = tensor;
    return {};
  }

  const StateReader& state_;
  double scale_;
  std::set<std::string> adapted_;  // weights
  mutable std::mutex mutex_;       // of the next two
  mutable std::string down_of_;
  mutable std::vector<double> down_;
};

/// The end of a module's name by which PEFT finds all of its kind: "q_proj"; for GPT-2, which has
/// two called c_proj in a block, with the part before.
std::string kind_of(const std::string& module, bool gpt2) {
  const std::size_t last = module.rfind('.');
  return module.substr((gpt2 ? module.rfind('.', last - 1) : last) + 1);
}

}  // namespace

ModelSpec without_adapters(const ModelSpec& spec) {
  ModelSpec base = spec;
  base.lora = {};
  return base;
}

Result<std::unique_ptr<StateReader>> merge_adapters(const StateReader& state,
                                                    const ModelSpec& spec) {
  if (auto known = check_adapters(state, spec); !known) return known.error();
  return std::unique_ptr<StateReader>(std::make_unique<MergedState>(state, spec));
}

Result<void> write_peft_adapters(const StateReader& state, const ModelSpec& spec,
                                 const std::string& base, const std::string& folder) {
  namespace fs = std::filesystem;
  if (auto known = check_adapters(state, spec); !known) return known;
  const bool gpt2 = spec.architecture == Architecture::Gpt2;
  std::map<std::string, Tensor> tensors;
  std::set<std::string> modules;
  for (const Parameter& weight : parameters_of(without_adapters(spec))) {
    const std::string down = weight.name + std::string(kAdapterDown);
    const std::string up = weight.name + std::string(kAdapterUp);
    if (!state.head().tensors.contains(down)) continue;
    const auto parts = hf_tensors(spec, weight);
    if (!parts) return parts.error();
    const std::int64_t inputs = weight.shape[1], rank = spec.lora.rank;
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
      const std::string module = part.name.substr(0, part.name.rfind('.'));
      const std::int64_t rows = part.transposed ? part.shape[1] : part.shape[0];
      modules.insert(kind_of(module, gpt2));
      if (auto added = add(module + ".lora_A.weight", down, 0, {rank, inputs}); !added)
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
                                   {"lora_dropout", 0.0},
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
