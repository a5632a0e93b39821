// lockstep import, lockstep export: weights from and for other tools.
#include <algorithm>
#include <filesystem>
#include <set>

#include "backends/version.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/model_source.hpp"
#include "core/base/read_file.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/checkpoint_store.hpp"
#include "core/format/format.hpp"
#include "core/hugging_face/config.hpp"
#include "core/run_folder/folder_claim.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/run_folder/run_lock.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/training_settings.hpp"
#include "core/weights/adapters.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Shows how much has been done, on a terminal.
class Share {
 public:
  explicit Share(const Console& console) : console_(console) {}
  ~Share() {
    if (percent_ >= 0) console_.err << "\n";
  }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  void show(double share) {
    const int percent = static_cast<int>(share * 100);
    if (!console_.live || percent == percent_) return;
    percent_ = percent;
    console_.err << "\r" << percent << " %" << std::flush;
  }

 private:
  const Console& console_;
  int percent_ = -1;
};

/// A scenario that trains the model on this machine: a beginning, to be edited.
Result<std::string> scenario_of(const std::string& folder, const ModelSpec& model) {
  const std::int64_t longest = model.max_seq_len > 0 ? model.max_seq_len : 1024;
  const std::string text = "[model]\nhf_config = \"" +
                           fs::absolute(fs::path(folder) / "config.json").string() +
                           "\"\n[cluster]\npreset = \"cpu\"\n[training]\ndtype = \"float32\"\n" +
                           "seq_len = " + std::to_string(std::min<std::int64_t>(longest, 1024)) +
                           "\n[checkpoint]\ninterval = 100\n";
  LoadedScenario loaded = parse_scenario(text, folder + "/config.json", {});
  if (!loaded.ok()) return loaded.errors.front();
  Scenario& scenario = loaded.points.front().scenario;
  scenario.model.max_seq_len = model.max_seq_len;
  if (scenario.model.experts > 0) scenario.model.capacity_factor = 0;  // no token is dropped
  return print_scenario(scenario);
}

/// Copies all tensors, a block at a time.
Result<void> copy_state(const StateReader& from, StateStore& to, Share& share) {
  constexpr std::int64_t kBlock = 1 << 24;
  std::int64_t all = 0, done = 0;
  for (const auto& [name, info] : from.head().tensors) all += info.bytes();
  if (auto begun = to.begin(from.head()); !begun) return begun;
  for (const auto& [name, info] : from.head().tensors) {
    for (std::int64_t at = 0; at < info.bytes(); at += kBlock) {
      std::vector<std::byte> block(to_size(std::min(kBlock, info.bytes() - at)));
      if (auto got = from.read(name, at, block); !got) return got;
      if (auto wrote = to.write(from.head(), name, at, block); !wrote) return wrote;
      done += static_cast<std::int64_t>(block.size());
      share.show(static_cast<double>(done) / static_cast<double>(all));
    }
  }
  auto written = to.finish_writing();
  if (!written) return written.error();
  if (!to.refusal().empty()) return invalid(to.refusal());
  return to.commit(from.head(), {*written});
}

/// Copies those of these files that a folder has.
Result<void> copy_files(const fs::path& from, const fs::path& to,
                        std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!fs::exists(from / name)) continue;
    const auto text = read_file((from / name).string());
    if (!text) return text.error();
    if (auto wrote = write_file((to / name).string(), *text); !wrote) return wrote;
  }
  return {};
}

/// With the names that this program and others give them.
Result<void> copy_tokenizer(const fs::path& from, const fs::path& to) {
  return copy_files(from, to,
                    {"tokenizer.json", "vocab.json", "merges.txt", "encoder.json", "vocab.bpe",
                     "vocab.txt", "tokenizer_config.json"});
}

/// Whether a folder describes a model and holds no weights of any format.
bool is_config_alone(const fs::path& folder) {
  if (fs::exists(folder / "scenario.toml") || !fs::exists(folder / "config.json")) return false;
  const std::set<std::string> formats = {".safetensors", ".bin", ".pt",      ".pth",
                                         ".gguf",        ".h5",  ".msgpack", ".onnx"};
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (formats.contains(file.path().extension()) || name.ends_with(".index.json")) return false;
  }
  return true;
}

/// A folder with the scenario of the model that a config.json describes.
Result<void> import_config(const WeightsArguments& arguments, const Console& console) {
  if (!arguments.merge.empty()) {
    return invalid(arguments.from + ": there are no weights that adapters could be merged with");
  }
  const auto config = read_hf_config((fs::path(arguments.from) / "config.json").string());
  if (!config) return config.error();
  if (!config->model.simulated_only.empty()) return open_model(arguments.from).error();
  for (const std::string& warning : config->warnings) report_warnings(console, {invalid(warning)});
  const auto scenario = scenario_of(arguments.from, config->model);
  if (!scenario) return scenario.error();
  FolderClaim claim(arguments.out, "checkpoints");
  if (auto ready = prepare_run_folder(arguments.out, "checkpoints", false); !ready) return ready;
  claim.arm();
  if (auto copied = copy_tokenizer(arguments.from, arguments.out); !copied) return copied;
  const std::string path = (fs::path(arguments.out) / "scenario.toml").string();
  if (auto wrote = write_file(path, *scenario); !wrote) return wrote;
  claim.keep();
  if (arguments.json) {
    console.out << json_text({{"run", arguments.out},
                              {"model", config->model.name},
                              {"tensors", 0},
                              {"scenario", path}});
    return {};
  }
  console.out << path << ": " << config->model.name
              << "; there are no weights, so training begins with random ones\n  lockstep run "
              << path << " --backend cpu --out RUN --set training.dataset=TEXT\n";
  return {};
}

Result<void> import_model(const WeightsArguments& arguments, const Console& console) {
  if (is_config_alone(arguments.from)) return import_config(arguments, console);
  auto source = open_model(arguments.from);
  if (!source) return source.error();
  report_warnings(console, source->warnings);
  std::unique_ptr<StateReader> merged;
  if (!arguments.merge.empty()) {
    auto made = merge_peft_adapters(*source->weights, source->model, arguments.merge);
    if (!made) return made.error();
    merged = std::move(*made);
  }
  const StateReader& weights = merged ? *merged : *source->weights;
  const auto scenario = scenario_of(arguments.from, source->model);
  if (!scenario) return scenario.error();
  FolderClaim claim(arguments.out, "checkpoints");
  if (auto ready = prepare_run_folder(arguments.out, "checkpoints", false); !ready) return ready;
  const auto lock = RunLock::take(arguments.out, "import");
  if (!lock) return lock.error();
  claim.arm();
  CheckpointRules rules;
  rules.run = "import";
  rules.version = kBuildFacts.version;
  for (auto& setting : keys_of(*scenario)) {
    if (setting.first.starts_with("model.")) rules.settings.push_back(std::move(setting));
  }
  const fs::path out(arguments.out);
  CheckpointStore store((out / "checkpoints").string(), std::move(rules));
  {
    Share share(console);
    if (auto copied = copy_state(weights, store, share); !copied) return copied;
  }
  if (auto copied = copy_tokenizer(arguments.from, out); !copied) return copied;
  if (auto wrote = write_file((out / "scenario.toml").string(), *scenario); !wrote) return wrote;
  claim.keep();
  if (arguments.json) {
    console.out << json_text({{"run", arguments.out},
                              {"model", source->model.name},
                              {"tensors", weights.head().tensors.size()},
                              {"scenario", (out / "scenario.toml").string()}});
    return {};
  }
  console.out << arguments.out << ": " << source->model.name << ", "
              << weights.head().tensors.size() << " parameters\n";
  if (source->model.is_decoder()) {
    console.out << "  lockstep sample " << arguments.out << " --prompt \"Once\"\n";
  }
  console.out << "  lockstep run " << arguments.out << "/scenario.toml --backend cpu --resume "
              << arguments.out << " --out RUN --set training.dataset=TEXT\n";
  return {};
}

Result<void> export_model(const WeightsArguments& arguments, const Console& console) {
  auto source = open_model(arguments.from);
  if (!source) return source.error();
  report_warnings(console, source->warnings);
  const bool adapted = source->model.lora.rank > 0;
  if (arguments.adapters) {
    if (!adapted) return invalid(arguments.from + ": the model has no adapters ([lora])");
    if (auto wrote =
            write_peft_adapters(*source->weights, source->model, source->model.name, arguments.out);
        !wrote) {
      return wrote;
    }
    if (arguments.json) {
      console.out << json_text({{"folder", arguments.out},
                                {"model", source->model.name},
                                {"adapter_rank", source->model.lora.rank}});
      return {};
    }
    console.out << arguments.out << ": adapters of " << source->model.name
                << ", for PeftModel.from_pretrained\n";
    return {};
  }
  std::unique_ptr<StateReader> merged;
  if (adapted) {
    auto made = merge_adapters(*source->weights, source->model);
    if (!made) return made.error();
    merged = std::move(*made);
  }
  HfExport options;
  options.dtype = source->dtype;
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    if (arguments.dtype == to_string(dtype)) options.dtype = dtype;
  }
  options.shard_bytes = static_cast<std::int64_t>(arguments.shard_gb * 1e9);
  Share share(console);
  options.on_progress = [&](double part) { share.show(part); };
  if (auto wrote = write_hf_weights(merged ? *merged : *source->weights,
                                    without_adapters(source->model), arguments.out, options);
      !wrote) {
    return wrote;
  }
  // Those that transformers knows.
  if (auto copied = copy_files(
          arguments.from, arguments.out,
          {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json"});
      !copied)
    return copied;
  if (arguments.json) {
    console.out << json_text({{"folder", arguments.out},
                              {"model", source->model.name},
                              {"dtype", to_string(options.dtype)}});
    return {};
  }
  console.out << arguments.out << ": " << source->model.name << " in " << to_string(options.dtype)
              << ", for AutoModelFor" << (source->model.is_decoder() ? "CausalLM" : "MaskedLM")
              << ".from_pretrained\n";
  return {};
}

}  // namespace

int import_command(const WeightsArguments& arguments, const Console& console) {
  if (arguments.out.empty()) {
    return report_error(console, invalid("import hf needs --out, the run folder to make"));
  }
  const auto done = import_model(arguments, console);
  return done ? 0 : report_error(console, done.error());
}

int export_command(const WeightsArguments& arguments, const Console& console) {
  if (arguments.out.empty()) {
    return report_error(console, invalid("export hf needs --out, the folder to make"));
  }
  const auto done = export_model(arguments, console);
  return done ? 0 : report_error(console, done.error());
}

}  // namespace lockstep
