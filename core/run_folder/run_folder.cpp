#include "core/run_folder/run_folder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/json_depth.hpp"
#include "core/base/new_file.hpp"
#include "core/base/read_file.hpp"
#include "core/base/result.hpp"
#include "core/chakra/chakra.hpp"
#include "core/run_folder/folder_claim.hpp"
#include "core/trace/chrome_trace.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string& path) {
  return Error{ErrorKind::Device, "cannot write " + path + ": " + std::strerror(errno),
               std::nullopt};
}

bool is_run_folder(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "scenario.toml", ignored) ||
         fs::exists(directory / "program.txt", ignored);
}

/// Whether there is a checkpoint that was finished, or a tensor file put there by hand.
bool holds_checkpoints(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "model.safetensors", ignored)) return true;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const bool unfinished = entry.path().extension() == ".new";
    if (fs::exists(entry.path() / "manifest.json", ignored) ||
        (!unfinished && fs::exists(entry.path() / "model.safetensors", ignored))) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<void> prepare_run_folder(const std::string& directory, const std::string& checkpoint_folder,
                                bool resuming) {
  std::error_code error;
  const fs::path path(directory);
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return invalid("--out " + directory + " is not a folder");
  }
  if (fs::is_symlink(path, error) && !fs::exists(path, error)) {
    return invalid("--out " + directory + " is a link to " +
                   fs::read_symlink(path, error).string() +
                   ", which is not there: make that folder, or choose another");
  }
  fs::create_directories(path, error);
  if (error) return invalid("--out " + directory + ": " + error.message());
  for (const std::string& name : {checkpoint_folder, std::string("tb")}) {
    if (!fs::is_symlink(path / name, error)) continue;
    return invalid("--out " + directory + ": " + name +
                   " is a link, and a run writes into no folder but its own: remove the link, or "
                   "choose a folder on the drive where it should write");
  }
  bool empty = true;  // but for the lock that every run leaves, and what a killed one had begun
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    empty = empty && (name == ".lock" || is_half_written(name));
  }
  if (error) return invalid("--out " + directory + ": " + error.message());
  if (empty) return {};
  if (!is_run_folder(path)) {
    return invalid("--out " + directory +
                   " is not empty and not a run folder (it has no program.txt): choose another");
  }
  if (!resuming && holds_checkpoints(path / checkpoint_folder)) {
    return invalid("--out " + directory +
                   " holds the checkpoints of another run: continue it with "
                   "--resume " +
                   directory + " or --resume auto, or choose another folder");
  }
  return {};
}

Result<Run> read_run(const std::string& directory) {
  const fs::path path(directory);
  if (!fs::is_directory(path)) return invalid(directory + " is not a folder");
  if (!fs::exists(path / "report.json")) {
    return invalid(directory +
                   " is not a finished run: it has no report.json. While it trains, Runs ▸ Follow… "
                   "of the application shows it; lockstep run --resume goes on with one that was "
                   "stopped");
  }
  const Result<std::string> text = read_file((path / "report.json").string());
  if (!text) return text.error();
  Result<Report> report = parse_report(*text, (path / "report.json").string());
  if (!report) return report.error();
  Result<Trace> trace = read_chrome_trace((path / "trace.json.gz").string());
  if (!trace) return trace.error();
  return Run{std::move(*report), std::move(*trace), {}, {}, {}};
}

Result<Run> open_run(const std::string& path, const ImportOptions& options) {
  std::error_code ignored;
  if (is_run_folder(path) || fs::exists(fs::path(path) / "report.json", ignored)) {
    return read_run(path);
  }
  if (!fs::exists(path, ignored) && !is_chakra(path)) {
    return invalid(path + ": no such file or folder");
  }
  Result<ImportedTrace> imported = read_any_trace(path, options);
  if (!imported) return imported.error();
  Report report = analyze(imported->trace);
  return Run{std::move(report), std::move(imported->trace), std::move(imported->remarks),
             std::move(imported->sources), std::move(imported->allocations)};
}

Result<std::string> find_checkpoints(const std::string& directory,
                                     const std::string& checkpoint_folder) {
  const fs::path path(directory);
  if (!fs::is_directory(path)) return invalid("--resume " + directory + " is not a folder");
  for (const fs::path& candidate : {path, path / checkpoint_folder}) {
    if (fs::exists(candidate / "latest") || fs::exists(candidate / "model.safetensors")) {
      return candidate.string();
    }
  }
  return invalid("--resume " + directory + ": no checkpoint there or in its " + checkpoint_folder +
                 " folder");
}

Result<MetricsLog> MetricsLog::open(const std::string& path, int first_step,
                                    const std::string& events) {
  std::string kept;
  if (first_step > 0 && fs::exists(path)) {
    std::ifstream old = open_file(path);
    for (std::string line; std::getline(old, line);) {
      if (nests_too_deep(line)) continue;
      const auto entry = nlohmann::json::parse(line, nullptr, false);
      if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number()) continue;
      if (entry["step"] <= first_step) kept += line + "\n";
    }
  }
  if (const Result<void> written = write_file(path, kept, Links::Replaced); !written) {
    return written.error();
  }
  MetricsLog log;
  log.path_ = path;
  log.whole_ = static_cast<std::int64_t>(kept.size());
  log.last_ = first_step;
  log.file_ = open_own_file(path, Begin::AtEnd);
  if (!log.file_) return cannot_write(path);
  if (!events.empty()) {
    Result<EventLog> opened = EventLog::open(events, first_step);
    if (!opened) return opened.error();
    log.events_ = std::move(*opened);
  }
  return log;
}

Result<void> MetricsLog::append(const StepResult& step, std::int64_t tokens_per_step,
                                const StepLosses& losses) {
  if (step.step < last_) {  // the run has gone back
    auto again = open(path_, step.step);
    if (!again) return again.error();
    again->events_ = std::move(events_);
    *this = std::move(*again);
    if (events_) {
      if (auto restarted = events_->restart(step.step + 1); !restarted) return restarted;
    }
  }
  // JSON has no numbers that are not finite; null stands for them.
  nlohmann::ordered_json line;
  line["step"] = step.step + 1;
  line["loss"] = step.loss;
  line["grad_norm"] = step.grad_norm;
  line["lr"] = step.lr;
  line["time"] = step.time.v;
  line["throughput(tps)"] =
      step.time.v > 0 ? static_cast<double>(tokens_per_step) / step.time.v : 0.0;
  if (step.loss_scale > 0) {
    line["loss_scale"] = step.loss_scale;
    line["good_steps"] = step.good_steps;
    line["skipped_steps"] = step.skipped_steps;
  }
  if (losses.validation) line["validation_loss"] = *losses.validation;
  if (losses.waiting.v > 0) line["wait_time"] = losses.waiting.v;
  if (losses.loading.v > 0) line["data_time"] = losses.loading.v;
  if (losses.straggler) line["straggler"] = *losses.straggler;
  if (losses.saving.v > 0) line["save_time"] = losses.saving.v;
  const std::string text = line.dump() + "\n";
  if (!(file_ << text << std::flush)) {
    const Error error = cannot_write(path_);
    file_.close();
    std::error_code ignored;
    if (!fs::is_symlink(path_, ignored)) {
      fs::resize_file(path_, static_cast<std::uintmax_t>(whole_), ignored);
    }
    file_ = open_own_file(path_, Begin::AtEnd);
    return error;
  }
  whole_ += static_cast<std::int64_t>(text.size());
  last_ = step.step + 1;
  if (!events_) return {};
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [name, value] : line.items()) {
    if (name != "step") values.emplace_back(name, value.get<double>());
  }
  return events_->append(last_, values);
}

}  // namespace lockstep
