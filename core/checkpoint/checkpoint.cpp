#include "core/checkpoint/checkpoint.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/checkpoint/safetensors.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kLatestFile = "latest";
constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kLossScale = "loss_scale";  // in the metadata of both files

/// The parameter of an optimizer tensor: "adam_m.x" gives "x"; empty if `name` is another tensor's.
std::string_view parameter_of(std::string_view name) {
  for (std::string_view prefix : {"adam_m.", "adam_v."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return {};
}

/// The number that `text` is; nullopt unless it is a decimal count and nothing else.
std::optional<int> parse_step(std::string_view text) {
  int step = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (fault != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

Error write_error(const fs::path& path, const std::error_code& code) {
  return {ErrorKind::InvalidSpec, path.string() + ": cannot be written: " + code.message(), {}};
}

Result<void> write_latest(const fs::path& directory, const std::string& name) {
  const fs::path temporary = directory / (std::string(kLatestFile) + ".new");
  std::ofstream out(temporary, std::ios::trunc);
  out << name << '\n';
  out.close();
  std::error_code code;
  if (!out) return write_error(temporary, std::make_error_code(std::errc::io_error));
  fs::rename(temporary, directory / kLatestFile, code);
  if (code) return write_error(directory / kLatestFile, code);
  return {};
}

/// The folder with model.safetensors that `directory` means: itself, or the one that its `latest`
/// names.
Result<fs::path> resolve(const fs::path& directory) {
  std::error_code code;
  if (fs::exists(directory / kModelFile, code)) return directory;
  const fs::path latest = directory / kLatestFile;
  std::ifstream in(latest);
  std::string name;
  if (!in || !(in >> name)) {
    return Error{ErrorKind::InvalidSpec,
                 directory.string() + ": no checkpoint here (neither " + kModelFile + " nor " +
                     kLatestFile + ")",
                 {}};
  }
  if (!name.starts_with(kStepPrefix) || !parse_step(name.substr(kStepPrefix.size()))) {
    return Error{ErrorKind::Parse, latest.string() + ": \"" + name + "\" is not step-N", {}};
  }
  if (!fs::exists(directory / name / kModelFile, code)) {
    return Error{ErrorKind::InvalidSpec,
                 latest.string() + " names " + name + ", which has no " + kModelFile,
                 {}};
  }
  return directory / name;
}

Result<int> step_of(const SafetensorsFile& file, const fs::path& path) {
  const auto entry = file.metadata.find("step");
  const std::optional<int> step =
      entry == file.metadata.end() ? std::nullopt : parse_step(entry->second);
  if (step) return *step;
  return Error{ErrorKind::Parse, path.string() + ": no step in the metadata", {}};
}

/// Adds the optimizer's tensors to `state`, which holds the parameters.
Result<void> add_optimizer(TrainingState& state, const fs::path& path) {
  Result<SafetensorsFile> file = read_safetensors(path.string());
  if (!file) return file.error();
  const Result<int> step = step_of(*file, path);
  if (!step) return step.error();
  if (*step != state.step) {
    return Error{ErrorKind::Parse,
                 path.string() + ": of step " + std::to_string(*step) + ", but " + kModelFile +
                     " is of step " + std::to_string(state.step),
                 {}};
  }
  for (auto& [name, tensor] : file->tensors) {
    const auto parameter = state.tensors.find(std::string(parameter_of(name)));
    if (parameter == state.tensors.end() || parameter->second.shape != tensor.shape) {
      return Error{ErrorKind::Parse,
                   path.string() + ": tensor \"" + name + "\": no parameter of " + kModelFile +
                       " has that name and shape",
                   {}};
    }
    state.tensors.emplace(name, std::move(tensor));
  }
  return {};
}

}  // namespace

Result<void> save_checkpoint(const TrainingState& state, const std::string& directory) {
  const std::string name = std::string(kStepPrefix) + std::to_string(state.step);
  const fs::path final_folder = fs::path(directory) / name;
  const fs::path new_folder = fs::path(directory) / (name + ".new");
  const fs::path old_folder = fs::path(directory) / (name + ".old");
  std::error_code code;
  fs::remove_all(new_folder, code);  // what a crash left behind
  fs::create_directories(new_folder, code);
  if (code) return write_error(new_folder, code);

  std::vector<NamedTensor> parameters, optimizer;
  for (const auto& [key, tensor] : state.tensors) {
    (parameter_of(key).empty() ? parameters : optimizer).push_back({key, &tensor});
  }
  std::map<std::string, std::string> metadata = {{"step", std::to_string(state.step)}};
  if (state.loss_scale) metadata[kLossScale] = to_string(*state.loss_scale);
  for (const auto& [file, tensors] :
       {std::pair(kModelFile, &parameters), std::pair(kOptimizerFile, &optimizer)}) {
    Result<void> written = write_safetensors((new_folder / file).string(), *tensors, metadata);
    if (!written) return written;
  }

  fs::remove_all(old_folder, code);
  if (fs::exists(final_folder, code)) {
    fs::rename(final_folder, old_folder, code);
    if (code) return write_error(final_folder, code);
  }
  fs::rename(new_folder, final_folder, code);
  if (code) return write_error(final_folder, code);
  if (Result<void> latest = write_latest(directory, name); !latest) return latest;
  fs::remove_all(old_folder, code);
  return {};
}

Result<TrainingState> load_checkpoint(const std::string& directory) {
  const Result<fs::path> folder = resolve(directory);
  if (!folder) return folder.error();
  const fs::path model_path = *folder / kModelFile;
  Result<SafetensorsFile> model = read_safetensors(model_path.string());
  if (!model) return model.error();
  TrainingState state;
  state.tensors = std::move(model->tensors);
  if (!model->metadata.contains("step")) return state;  // the weights come from another tool
  const Result<int> step = step_of(*model, model_path);
  if (!step) return step.error();
  state.step = *step;
  if (const auto scale = model->metadata.find(kLossScale); scale != model->metadata.end()) {
    state.loss_scale = parse_loss_scale(scale->second);
    if (!state.loss_scale) {
      return Error{ErrorKind::Parse,
                   model_path.string() + ": the metadata's loss_scale \"" + scale->second +
                       "\" is not a scale and three counts",
                   {}};
    }
  }
  if (Result<void> added = add_optimizer(state, *folder / kOptimizerFile); !added) {
    return added.error();
  }
  return state;
}

}  // namespace lockstep
