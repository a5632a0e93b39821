#include "core/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/base/hash.hpp"
#include "core/base/read_file.hpp"
#include "core/checkpoint/checkpoint_store.hpp"
#include "core/checkpoint/disk_file.hpp"
#include "core/checkpoint/layout.hpp"
#include "core/checkpoint/safetensors.hpp"
#include "core/ir/program.hpp"

namespace lockstep {
namespace {

using namespace checkpoint;

/// Whether an optimizer's tensor has the shape of its parameter, or one of its own. That of a scale
/// has a history of each element, in one dimension more (Unit::history).
bool belongs(std::string_view name, const TensorInfo& parameter, const TensorInfo& state) {
  if (has_own_shape(name)) return true;
  std::vector<std::int64_t> shape = state.shape;
  if (name.ends_with(kFactorScales) && shape.size() == parameter.shape.size() + 1) shape.pop_back();
  return shape == parameter.shape;
}

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> kFiles = {kModelFile, kOptimizerFile};
constexpr std::int64_t kBlock = 1 << 22;  // bytes that are read at a time

class CheckpointReader final : public StateReader {
 public:
  static Result<std::unique_ptr<CheckpointReader>> open(const fs::path& folder) {
    auto reader = std::make_unique<CheckpointReader>();
    std::error_code code;
    for (const char* name : kFiles) {
      const std::string path = (folder / name).string();
      if (name == kOptimizerFile && !fs::exists(path, code)) continue;
      auto index = read_safetensors_index(path);
      if (!index) return index.error();
      auto file = DiskFile::open_to_read(path);
      if (!file) return file.error();
      for (const auto& [tensor, entry] : index->tensors) {
        if (file_of(tensor) != std::string(name)) {
          return Error{ErrorKind::Parse, path + ": tensor \"" + tensor + "\" does not belong here",
                       std::nullopt};
        }
        reader->head_.tensors[tensor] = entry.info;
      }
      if (name == kModelFile) reader->head_.notes = index->metadata;
      reader->indices_[name] = std::move(*index);
      reader->files_.emplace(name, OnDisk{path, file->identity()});
    }
    reader->head_.notes.erase("step");
    for (const auto& [tensor, info] : reader->head_.tensors) {
      const std::string_view parameter = parameter_of(tensor);
      if (parameter.empty()) continue;
      const auto found = reader->head_.tensors.find(std::string(parameter));
      if (found == reader->head_.tensors.end() || !belongs(tensor, found->second, info)) {
        return Error{ErrorKind::Parse,
                     (folder / kOptimizerFile).string() + ": tensor \"" + tensor +
                         "\": no parameter of " + kModelFile + " has that name and shape",
                     std::nullopt};
      }
    }
    return reader;
  }

  Result<void> read(const std::string& tensor, std::int64_t begin,
                    std::span<std::byte> to) const override {
    const std::string file = file_of(tensor);
    const SafetensorsIndex::Entry& entry = indices_.at(file).tensors.at(tensor);
    const std::int64_t bytes = entry.info.bytes(), wanted = static_cast<std::int64_t>(to.size());
    if (begin < 0 || wanted > bytes || begin > bytes - wanted) {
      return Error{ErrorKind::Internal, "tensor \"" + tensor + "\" is read outside its values", {}};
    }
    // It is open only while it is read: a run that goes on holds no file of an older checkpoint.
    const OnDisk& there = files_.at(file);
    auto open = DiskFile::open_to_read(there.path);
    if (!open) return open.error();
    if (open->identity() != there.identity) {
      return Error{ErrorKind::Parse, there.path + ": has changed while it was read", std::nullopt};
    }
    return open->read(entry.begin + begin, to.data(), to.size());
  }

  void set_position(int step, std::optional<std::int64_t> samples) {
    head_.step = step;
    head_.samples = samples;
  }
  const std::map<std::string, SafetensorsIndex>& indices() const { return indices_; }

 private:
  std::map<std::string, SafetensorsIndex> indices_;
  struct OnDisk {
    std::string path;
    std::array<std::int64_t, 5> identity;
  };
  std::map<std::string, OnDisk> files_;
};

Error parse_error(const fs::path& path, const std::string& what) {
  return {ErrorKind::Parse, path.string() + ": " + what, std::nullopt};
}

/// Whether every byte is the one that was saved.
Result<void> check_tensors(const CheckpointReader& reader, const Manifest& manifest,
                           const fs::path& folder) {
  for (const auto& [name, hash] : manifest.heads) {
    const auto index = reader.indices().find(name);
    if (index == reader.indices().end()) return parse_error(folder / name, "is missing");
    if (fnv1a(index->second.head) != hash) {
      return parse_error(folder / name, "damaged: its header is not the one that was saved");
    }
  }
  for (const auto& [tensor, info] : reader.head().tensors) {
    if (!manifest.tensors.contains(tensor)) {
      return parse_error(folder, "damaged: tensor \"" + tensor + "\" is not in the manifest");
    }
  }
  std::vector<std::byte> block(static_cast<std::size_t>(kBlock));
  for (const auto& [tensor, checksum] : manifest.tensors) {
    const auto found = reader.head().tensors.find(tensor);
    if (found == reader.head().tensors.end()) {
      return parse_error(folder, "damaged: tensor \"" + tensor + "\" is missing");
    }
    const TensorInfo& info = found->second;
    std::uint64_t sum = 0;
    for (std::int64_t at = 0, bytes = info.bytes(); at < bytes; at += kBlock) {
      const std::span<std::byte> part(block.data(),
                                      static_cast<std::size_t>(std::min(kBlock, bytes - at)));
      if (auto read = reader.read(tensor, at, part); !read) return read;
      sum += checksum_of(part, info.dtype, at / size_of(info.dtype));
    }
    if (sum != checksum) {
      return parse_error(folder / file_of(tensor),
                         "damaged: tensor \"" + tensor + "\" is not what was saved (checksum)");
    }
  }
  return {};
}

/// Reads one step-N folder through.
Result<FoundCheckpoint> check_folder(const fs::path& folder, bool unverified) {
  FoundCheckpoint found;
  found.folder = folder.string();
  auto reader = CheckpointReader::open(folder);
  if (!reader) return reader.error();
  std::error_code code;
  const fs::path manifest = folder / kManifestFile;
  if (!fs::exists(manifest, code)) {
    const auto& metadata = (*reader)->indices().at(kModelFile).metadata;
    const auto step = metadata.find("step");
    found.verified = false;
    if (step == metadata.end()) return found;  // weights of another tool
    const auto number = parse_count(step->second);
    if (!number) return parse_error(folder / kModelFile, "no step in the metadata");
    if (!unverified) {
      return parse_error(manifest,
                         "is missing, so nothing says whether the checkpoint is whole: it was "
                         "damaged, or written by an older version (--accept checksums takes it)");
    }
    found.manifest.step = *number;
    return found;
  }
  auto read = read_manifest(manifest.string());
  if (!read) return read.error();
  if (auto whole = check_tensors(**reader, *read, folder); !whole) return whole.error();
  found.manifest = std::move(*read);
  return found;
}

/// A folder that may hold a checkpoint: step, how far its writing came (0: done), path.
using Candidate = std::tuple<int, int, fs::path>;

/// All step-N, step-N.new and step-N.old of a folder: first those that `latest` means, then by
/// descending step.
std::vector<Candidate> candidates(const fs::path& directory, std::optional<int> latest) {
  std::vector<Candidate> all;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    std::string name = entry.path().filename().string();
    int state = 0;
    if (name.ends_with(".new")) state = 1;
    if (name.ends_with(".old")) state = 2;
    if (state != 0) name.resize(name.size() - 4);
    if (const auto step = step_of(name)) all.emplace_back(*step, state, entry.path());
  }
  std::sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    const auto key = [&](const Candidate& c) {
      return std::tuple(std::get<0>(c) != latest, -std::get<0>(c), std::get<1>(c));
    };
    return key(a) < key(b);
  });
  return all;
}

/// The step that `latest` names; the error says what is wrong with it.
Result<int> named_by_latest(const fs::path& directory) {
  const fs::path latest = directory / kLatestFile;
  std::ifstream in = open_file(latest.string());
  std::string name;
  if (!in || !(in >> name)) {
    return invalid(directory.string() + ": no checkpoint here (neither " + kModelFile + " nor " +
                   kLatestFile + ")");
  }
  if (const auto step = step_of(name)) return *step;
  return parse_error(latest, "\"" + name.substr(0, 40) + "\" is not step-N");
}

}  // namespace

Result<FoundCheckpoint> find_checkpoint(const std::string& directory, bool unverified) {
  std::error_code code;
  if (fs::exists(fs::path(directory) / kModelFile, code)) {
    return check_folder(directory, unverified);
  }
  const Result<int> latest = named_by_latest(directory);
  const auto all = candidates(directory, latest ? std::optional(*latest) : std::nullopt);
  std::vector<std::string> damaged;
  if (latest && (all.empty() || std::get<0>(all.front()) != *latest)) {
    damaged.push_back((fs::path(directory) / kLatestFile).string() + " names step-" +
                      std::to_string(*latest) + ", which is not there");
  }
  ErrorKind kind = ErrorKind::InvalidSpec;
  for (const auto& [step, state, folder] : all) {
    // What is not finished counts only if its manifest, which is written last, is there.
    if (state != 0 && !fs::exists(folder / kManifestFile, code)) continue;
    auto found = check_folder(folder, unverified);
    if (found) {
      if (!latest) damaged.insert(damaged.begin(), latest.error().message);
      found->damaged = std::move(damaged);
      return found;
    }
    damaged.push_back(found.error().message);
    kind = found.error().kind;
  }
  if (!latest && damaged.empty()) return latest.error();
  std::string why;
  for (const std::string& text : damaged) why += (why.empty() ? "" : "; ") + text;
  return Error{kind, why, std::nullopt};
}

bool any_checkpoint(const std::string& directory) {
  std::error_code code;
  if (fs::exists(fs::path(directory) / kLatestFile, code)) return true;
  const auto all = candidates(directory, std::nullopt);
  return std::any_of(all.begin(), all.end(), [&](const Candidate& c) {
    return std::get<1>(c) == 0 || fs::exists(std::get<2>(c) / kManifestFile, code);
  });
}

Result<std::unique_ptr<StateReader>> open_checkpoint(const FoundCheckpoint& found) {
  auto reader = CheckpointReader::open(found.folder);
  if (!reader) return reader.error();
  (*reader)->set_position(found.manifest.step,
                          found.verified ? std::optional(found.manifest.samples) : std::nullopt);
  return std::unique_ptr<StateReader>(std::move(*reader));
}

/// Makes `latest` name the newest whole checkpoint if it names none, so that the next save, and
/// whoever reads it, finds it as it should be. A folder of that name is put aside.
void mend_latest(const fs::path& directory) {
  std::error_code code;
  const auto named = named_by_latest(directory);
  const auto folder = [&](int step) {
    return directory / (std::string(kStepPrefix) + std::to_string(step));
  };
  if (named && fs::exists(folder(*named) / kManifestFile, code)) return;
  if (!any_checkpoint(directory.string())) return;
  const fs::path latest = directory / kLatestFile;
  if (fs::is_directory(fs::symlink_status(latest, code))) {
    fs::rename(latest, directory / (std::string(kLatestFile) + ".folder"), code);
  }
  const auto newest = find_checkpoint(directory.string());
  if (!newest) return;
  static_cast<void>(replace_file(
      latest.string(), std::string(kStepPrefix) + std::to_string(newest->manifest.step) + "\n"));
}

void mend_checkpoints(const std::string& directory) {
  std::error_code code;
  for (const auto& [step, state, folder] : candidates(directory, std::nullopt)) {
    if (state == 0) continue;
    const fs::path final = fs::path(directory) / (std::string(kStepPrefix) + std::to_string(step));
    if (!fs::exists(final, code) && check_folder(folder, false)) {
      fs::rename(folder, final, code);
    } else {
      fs::remove_all(folder, code);
    }
  }
  mend_latest(directory);
}

Result<void> save_checkpoint(const TrainingState& state, const std::string& directory) {
  CheckpointStore store(directory, {});
  const StateHead head = HeldState(state).head();
  if (auto begun = store.begin(head); !begun) return begun;
  for (const auto& [name, tensor] : state.tensors) {
    if (auto wrote = store.write(head, name, 0, tensor.data); !wrote) return wrote;
  }
  const auto written = store.finish_writing();
  if (!written) return written.error();
  if (!store.refusal().empty()) return invalid(store.refusal());
  return store.commit(head, {*written});
}

Result<TrainingState> load_checkpoint(const std::string& directory) {
  const auto found = find_checkpoint(directory);
  if (!found) return found.error();
  const auto reader = open_checkpoint(*found);
  if (!reader) return reader.error();
  const StateHead& head = (*reader)->head();
  TrainingState state;
  state.step = head.step;
  state.samples = head.samples;
  auto scale = loss_scale_of(head);
  if (!scale) return scale.error();
  state.loss_scale = *scale;
  for (const auto& [name, info] : head.tensors) {
    Tensor tensor{info.dtype, info.shape, {}};
    tensor.data.resize(static_cast<std::size_t>(info.bytes()));
    if (auto read = (*reader)->read(name, 0, tensor.data); !read) return read.error();
    state.tensors.emplace(name, std::move(tensor));
  }
  return state;
}

}  // namespace lockstep
