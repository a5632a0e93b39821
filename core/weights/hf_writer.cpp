#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/convert.hpp"
#include "core/base/file_fault.hpp"
#include "core/base/index_vector.hpp"
#include "core/checkpoint/disk_file.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/hugging_face/config.hpp"
#include "core/hugging_face/tensors.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A tensor to write, and the parameter that it is a part of.
struct Source {
  std::string parameter;
  HfTensor tensor;
  TensorInfo info;  // as it is written
};

class HfWriter {
 public:
  HfWriter(const StateReader& state, std::string folder, const HfExport& options)
      : state_(state), folder_(std::move(folder)), options_(options) {}

  Result<void> collect(const ModelSpec& spec) {
    const auto family = hf_family_of(spec);
    if (!family) return family.error();
    for (const Parameter& parameter : parameters_of(spec)) {
      if (auto there = check_parameter(state_, parameter); !there) return there;
      const auto tensors = hf_tensors(**family, spec, parameter);
      if (!tensors) return tensors.error();
      for (const HfTensor& tensor : *tensors) {
        const bool more = !sources_.empty() && sources_.back().tensor.name == tensor.name;
        sources_.push_back({parameter.name, tensor, {options_.dtype, tensor.shape}});
        if (!more) bytes_ += sources_.back().info.bytes();
      }
    }
    return {};
  }

  Result<void> write() {
    std::vector<std::vector<const Source*>> shards;
    std::int64_t held = options_.shard_bytes;
    for (const Source& source : sources_) {
      // The blocks of a tensor are in one file.
      const bool more = !shards.empty() && shards.back().back()->tensor.name == source.tensor.name;
      const std::int64_t bytes = source.info.bytes();
      if (!more && held + bytes > options_.shard_bytes) {
        shards.emplace_back();
        held = 0;
      }
      if (!more) held += bytes;
      shards.back().push_back(&source);
    }
    nlohmann::ordered_json index;
    index["metadata"]["total_size"] = bytes_;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      char name[64] = "model.safetensors";
      if (shards.size() > 1) {
        std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
      }
      if (auto wrote = write_shard(name, shards[i]); !wrote) return wrote;
      for (const Source* source : shards[i]) index["weight_map"][source->tensor.name] = name;
    }
    const std::string index_file = (fs::path(folder_) / "model.safetensors.index.json").string();
    if (shards.size() == 1) return remove_earlier(index_file);
    if (auto wrote = replace_file(index_file, index.dump(2) + "\n"); !wrote) return wrote;
    return remove_earlier((fs::path(folder_) / "model.safetensors").string());
  }

 private:
  /// A file of other weights that were there before, which a reader would take for these.
  static Result<void> remove_earlier(const std::string& path) {
    std::error_code code;
    fs::remove(path, code);
    if (!code) return {};
    return Error{kind_of_file_fault(code.value()),
                 path + ": is of earlier weights, and cannot be removed: " + code.message(),
                 std::nullopt};
  }

  Result<void> write_shard(const std::string& name, const std::vector<const Source*>& sources) {
    std::map<std::string, TensorInfo> infos;
    for (const Source* source : sources) infos.emplace(source->tensor.name, source->info);
    const auto layout = lay_out(infos, {{"format", "pt"}});
    if (!layout) return layout.error();
    const std::string path = (fs::path(folder_) / name).string(), temporary = path + ".new";
    auto file = DiskFile::create(temporary);
    if (!file) return file.error();
    const auto write_all = [&]() -> Result<void> {
      if (auto room = file->reserve(layout->file_bytes); !room) return room;
      if (auto wrote = file->write(0, layout->head.data(), layout->head.size()); !wrote)
        return wrote;
      for (const Source* source : sources) {
        const std::int64_t begin = layout->tensors.at(source->tensor.name).begin;
        if (auto wrote = write_tensor(*source, *file, begin); !wrote) return wrote;
      }
      return file->sync();
    };
    std::error_code code;
    if (auto wrote = write_all(); !wrote) {
      fs::remove(temporary, code);
      return wrote;
    }
    fs::rename(temporary, path, code);
    if (code) return Error{ErrorKind::Device, path + ": " + code.message(), std::nullopt};
    return sync_folder(folder_);
  }

  Result<void> write_tensor(const Source& source, DiskFile& file, std::int64_t begin) {
    constexpr std::int64_t kBlock = 1 << 20;  // elements at a time
    const TensorInfo& info = source.info;
    const DType from = state_.head().tensors.at(source.parameter).dtype;
    const std::int64_t all = source.tensor.elements();
    const std::int64_t block = source.tensor.transposed ? all : kBlock;
    const std::int64_t skipped = source.tensor.skipped * size_of(info.dtype);
    const std::vector<std::byte> zeros(to_size(source.tensor.count > 0 ? 0 : skipped));
    if (auto wrote = file.write(begin, zeros.data(), zeros.size()); !wrote) return wrote;
    begin += skipped;
    for (std::int64_t at = 0; at < all; at += block) {
      const std::int64_t count = std::min(block, all - at);
      std::vector<std::byte> own(to_size(count * size_of(from)));
      std::vector<std::byte> made(to_size(count * size_of(info.dtype)));
      if (auto got = state_.read(source.parameter, (source.tensor.begin + at) * size_of(from), own);
          !got) {
        return got;
      }
      if (source.tensor.less != 0) add(-source.tensor.less, own, from);
      convert(own, from, made, info.dtype);
      if (source.tensor.transposed) {
        own.resize(made.size());
        transpose(made, info.shape[1], info.shape[0], size_of(info.dtype), own);
        made.swap(own);
      }
      if (auto wrote = file.write(begin + at * size_of(info.dtype), made.data(), made.size());
          !wrote) {
        return wrote;
      }
      done_ += static_cast<std::int64_t>(made.size());
      if (options_.on_progress) {
        options_.on_progress(static_cast<double>(done_) / static_cast<double>(bytes_));
      }
    }
    return {};
  }

  const StateReader& state_;
  std::string folder_;
  const HfExport& options_;
  std::vector<Source> sources_;
  std::int64_t bytes_ = 0, done_ = 0;
};

}  // namespace

Result<void> check_parameter(const StateReader& state, const Parameter& parameter) {
  const auto found = state.head().tensors.find(parameter.name);
  if (found == state.head().tensors.end()) {
    return invalid("the checkpoint lacks parameter '" + parameter.name + "'");
  }
  if (found->second.shape != parameter.shape) {
    return invalid("parameter '" + parameter.name +
                   "' of the checkpoint has another shape than the model's");
  }
  return {};
}

Result<void> write_hf_weights(const StateReader& state, const ModelSpec& spec,
                              const std::string& folder, const HfExport& options) {
  HfWriter writer(state, folder, options);
  if (auto collected = writer.collect(spec); !collected) return collected;
  const auto config = print_hf_config(spec, std::string(to_string(options.dtype)));
  if (!config) return config.error();
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return Error{ErrorKind::Device, folder + ": " + code.message(), std::nullopt};
  if (auto wrote = writer.write(); !wrote) return wrote;
  return replace_file((fs::path(folder) / "config.json").string(), *config);
}

}  // namespace lockstep
