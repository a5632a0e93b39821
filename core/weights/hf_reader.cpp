#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/base/convert.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/json_depth.hpp"
#include "core/base/read_file.hpp"
#include "core/base/shape_text.hpp"
#include "core/checkpoint/disk_file.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/hugging_face/config.hpp"
#include "core/hugging_face/tensors.hpp"
#include "core/model/model.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class HfReader final : public StateReader {
 public:
  /// Finds the files, the tensors in them, and for every parameter those it consists of.
  Result<void> open(const std::string& folder, const ModelSpec& spec, DType dtype) {
    folder_ = folder;
    const auto names = files_of(folder);
    if (!names) return names.error();
    for (const std::string& name : *names) {
      if (auto added = add_file((fs::path(folder) / name).string()); !added) return added;
    }
    // Several families may describe a model: the file says of which it is.
    const auto config = read_hf_config(folder);
    const bool said = config && !config->family->names.empty();
    const auto family = said ? Result<const HfFamily*>(config->family) : hf_family_of(spec);
    if (!family) return family.error();
    std::set<std::string> unused;
    for (const auto& [name, place] : places_) {
      if (!is_hf_leftover(**family, spec, name)) unused.insert(name);
    }
    for (const auto& [name, type] : others_) {  // masks of GPT-2, positions of RoBERTa
      if (!is_hf_leftover(**family, spec, name)) unused.insert(name);
    }
    for (const Parameter& parameter : parameters_of(spec)) {
      auto parts = hf_tensors(**family, spec, parameter);
      if (!parts) return parts.error();
      for (HfTensor& part : *parts) {
        if (auto found = find(part); !found) return found;
        unused.erase(part.name);
      }
      head_.tensors[parameter.name] = {dtype, parameter.shape};
      parts_[parameter.name] = std::move(*parts);
    }
    if (unused.empty()) return {};
    return Error{ErrorKind::Unsupported,
                 folder + ": the model of config.json has no use for tensor '" + *unused.begin() +
                     "' and " + std::to_string(unused.size() - 1) + " others",
                 std::nullopt};
  }

  Result<void> read(const std::string& tensor, std::int64_t begin,
                    std::span<std::byte> to) const override {
    const TensorInfo& info = head_.tensors.at(tensor);
    const std::int64_t size = size_of(info.dtype);
    std::int64_t at = begin / size;
    const std::int64_t end = at + static_cast<std::int64_t>(to.size()) / size;
    for (const HfTensor& part : parts_.at(tensor)) {
      const std::int64_t last = part.begin + part.elements();
      if (at >= end || at >= last) continue;
      const std::int64_t count = std::min(end, last) - at;
      const std::size_t done = to.size() - to_size((end - at) * size);
      if (auto got = read_part(part, at - part.begin, count, info.dtype,
                               to.subspan(done, to_size(count * size)));
          !got) {
        return got;
      }
      at += count;
    }
    return {};
  }

 private:
  struct Place {
    std::size_t file = 0;  // index into files_
    SafetensorsIndex::Entry entry;
  };

  static Result<std::vector<std::string>> files_of(const std::string& folder) {
    // Of both, transformers takes the one file.
    if (fs::exists(fs::path(folder) / "model.safetensors")) {
      return std::vector<std::string>{"model.safetensors"};
    }
    const fs::path index = fs::path(folder) / "model.safetensors.index.json";
    if (!fs::exists(index)) {
      return invalid(folder +
                     ": there is neither model.safetensors nor model.safetensors.index.json; "
                     "weights in other formats have to be saved as safetensors first");
    }
    const Result<std::string> text = read_file(index.string());
    if (!text) return text.error();
    const auto json = nests_too_deep(*text)
                          ? nlohmann::json()
                          : nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
      return Error{ErrorKind::Parse, index.string() + ": there is no object 'weight_map'",
                   std::nullopt};
    }
    std::set<std::string> names;
    for (const auto& [tensor, name] : json["weight_map"].items()) {
      const std::string text = name.is_string() ? name.get<std::string>() : "";
      if (text.empty() || fs::path(text).filename() != text) {
        return Error{ErrorKind::Parse,
                     index.string() + ": the file of '" + tensor + "' is no name in this folder",
                     std::nullopt};
      }
      names.insert(text);
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

  Result<void> add_file(const std::string& path) {
    auto index = read_safetensors_index(path, /*lists_others=*/true);
    if (!index) return index.error();
    auto file = DiskFile::open_to_read(path);
    if (!file) return file.error();
    const auto twice = [&](const std::string& name) {
      return Error{ErrorKind::Parse, path + ": tensor '" + name + "' is in another file, too",
                   std::nullopt};
    };
    for (auto& [name, entry] : index->tensors) {
      if (others_.contains(name) || !places_.emplace(name, Place{files_.size(), entry}).second) {
        return twice(name);
      }
    }
    for (const auto& [name, type] : index->others) {
      if (places_.contains(name) || !others_.emplace(name, type).second) return twice(name);
    }
    files_.push_back(std::move(*file));
    return {};
  }

  /// The name of TensorFlow's norms, which BERT's first files have: gamma and beta.
  static std::string old_name(std::string name) {
    for (const auto& [now, then] : {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"},
                                    std::pair{".LayerNorm.bias", ".LayerNorm.beta"}}) {
      if (name.ends_with(now)) {
        return name.substr(0, name.size() - std::string_view(now).size()) + then;
      }
    }
    return name;
  }

  /// Checks a tensor, and gives it the name that it has in the files: that of the bare model has no
  /// prefix.
  Result<void> find(HfTensor& part) const {
    auto found = places_.end();
    for (const std::string& name :
         {part.name, old_name(part.name), part.name.substr(part.name.find('.') + 1)}) {
      if (found == places_.end()) found = places_.find(name);
      if (const auto other = others_.find(name); other != others_.end()) {
        return of_other_type(name, other->second);
      }
    }
    if (found == places_.end()) return invalid(folder_ + ": tensor '" + part.name + "' is missing");
    part.name = found->first;
    const TensorInfo& info = found->second.entry.info;
    if (info.shape != part.shape) {
      return invalid(folder_ + ": tensor '" + part.name + "' has shape " + shape_text(info.shape) +
                     ", config.json says " + shape_text(part.shape));
    }
    if (is_real(info.dtype)) return {};
    return of_other_type(part.name, std::string(to_string(info.dtype)));
  }

  Error of_other_type(const std::string& tensor, const std::string& type) const {
    return {ErrorKind::Unsupported,
            folder_ + ": tensor '" + tensor + "' has elements of type " + type +
                ": save it as float64, float32, bfloat16 or float16 (what is quantized first has "
                "to be multiplied with its scales)",
            std::nullopt};
  }

  Result<void> read_part(const HfTensor& part, std::int64_t first, std::int64_t count, DType dtype,
                         std::span<std::byte> to) const {
    const Place& place = places_.at(part.name);
    const DType stored = place.entry.info.dtype;
    const std::int64_t size = size_of(stored);
    if (part.transposed) {
      const std::lock_guard lock(mutex_);
      if (auto got = turn(part, place); !got) return got;
      convert(std::span(turned_).subspan(to_size(first * size), to_size(count * size)), stored, to,
              dtype);
      return {};
    }
    std::vector<std::byte> raw(to_size(count * size));
    const std::int64_t begin = place.entry.begin + (part.skipped + first) * size;
    if (auto got = files_[place.file].read(begin, raw.data(), raw.size()); !got) return got;
    convert(raw, stored, to, dtype);
    if (part.less != 0) add(part.less, to, dtype);
    return {};
  }

  /// Keeps the transpose of the tensor that was asked for last, because its pieces lie apart.
  Result<void> turn(const HfTensor& part, const Place& place) const {
    if (turned_name_ == part.name) return {};
    const TensorInfo& info = place.entry.info;
    std::vector<std::byte> raw(to_size(info.bytes()));
    if (auto got = files_[place.file].read(place.entry.begin, raw.data(), raw.size()); !got) {
      return got;
    }
    turned_.resize(raw.size());
    transpose(raw, info.shape[0], info.shape[1], size_of(info.dtype), turned_);
    turned_name_ = part.name;
    return {};
  }

  std::string folder_;
  std::vector<DiskFile> files_;
  std::map<std::string, Place> places_;                 // by the tensor's name there
  std::map<std::string, std::string> others_;           // likewise: those of types not read here
  std::map<std::string, std::vector<HfTensor>> parts_;  // by the parameter's name here
  mutable std::mutex mutex_;                            // of the next two
  mutable std::string turned_name_;
  mutable std::vector<std::byte> turned_;
};

}  // namespace

std::vector<Parameter> parameters_of(const ModelSpec& spec) {
  std::vector<Parameter> list;
  for (const UnitLayout& unit : build_transformer(spec, {}).units) {
    list.insert(list.end(), unit.parameters.begin(), unit.parameters.end());
  }
  return list;
}

Result<std::unique_ptr<StateReader>> open_hf_weights(const std::string& folder,
                                                     const ModelSpec& spec, DType dtype) {
  auto reader = std::make_unique<HfReader>();
  if (auto opened = reader->open(folder, spec, dtype); !opened) return opened.error();
  return std::unique_ptr<StateReader>(std::move(reader));
}

}  // namespace lockstep
