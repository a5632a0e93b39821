#include "core/run_folder/run_folder.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/result.hpp"
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

}  // namespace

Result<void> prepare_run_folder(const std::string& directory, const std::string& checkpoint_folder,
                                bool resuming) {
  std::error_code error;
  const fs::path path(directory);
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return invalid("--out " + directory + " is not a folder");
  }
  fs::create_directories(path, error);
  if (error) return invalid("--out " + directory + ": " + error.message());
  const bool empty = fs::is_empty(path, error);
  if (error) return invalid("--out " + directory + ": " + error.message());
  if (empty) return {};
  if (!is_run_folder(path)) {
    return invalid("--out " + directory +
                   " is not empty and not a run folder (it has no program.txt): choose another");
  }
  const fs::path checkpoints = path / checkpoint_folder;
  if (!resuming && fs::exists(checkpoints, error)) {
    return invalid("--out " + directory +
                   " holds the checkpoints of another run: continue it with "
                   "--resume " +
                   directory + ", or choose another folder");
  }
  return {};
}

Result<void> write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    if (!(file << text << std::flush)) return cannot_write(path);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return cannot_write(path);
  return {};
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return invalid(path + ": " + std::strerror(errno));
  return text.str();
}

Result<Run> read_run(const std::string& directory) {
  const fs::path path(directory);
  if (!fs::is_directory(path)) return invalid(directory + " is not a folder");
  if (!fs::exists(path / "report.json")) {
    return invalid(directory + " is not a finished run: it has no report.json");
  }
  const Result<std::string> text = read_file((path / "report.json").string());
  if (!text) return text.error();
  Result<Report> report = parse_report(*text, (path / "report.json").string());
  if (!report) return report.error();
  Result<Trace> trace = read_chrome_trace((path / "trace.json.gz").string());
  if (!trace) return trace.error();
  return Run{std::move(*report), std::move(*trace), {}};
}

Result<Run> open_run(const std::string& path, const ImportOptions& options) {
  std::error_code ignored;
  if (is_run_folder(path) || fs::exists(fs::path(path) / "report.json", ignored)) {
    return read_run(path);
  }
  if (!fs::exists(path, ignored)) return invalid(path + ": no such file or folder");
  Result<ImportedTrace> imported = read_any_trace(path, options);
  if (!imported) return imported.error();
  Report report = analyze(imported->trace);
  return Run{std::move(report), std::move(imported->trace), std::move(imported->remarks)};
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

Result<MetricsLog> MetricsLog::open(const std::string& path, int first_step) {
  std::string kept;
  if (first_step > 0 && fs::exists(path)) {
    std::ifstream old(path);
    for (std::string line; std::getline(old, line);) {
      const auto entry = nlohmann::json::parse(line, nullptr, false);
      if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number()) continue;
      if (entry["step"] <= first_step) kept += line + "\n";
    }
  }
  if (const Result<void> written = write_file(path, kept); !written) return written.error();
  MetricsLog log;
  log.file_.open(path, std::ios::app);
  if (!log.file_) return cannot_write(path);
  return log;
}

void MetricsLog::append(const StepResult& step, std::int64_t tokens_per_step) {
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
  file_ << line.dump() << "\n" << std::flush;
}

}  // namespace lockstep
