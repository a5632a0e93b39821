#include "cli/other_file.hpp"

#include <filesystem>

#include "core/base/read_file.hpp"
#include "core/handover/plan_import.hpp"
#include "core/lesson/lesson.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// How a configuration of another trainer becomes a scenario, if the file is one.
std::optional<Error> foreign_plan(const std::string& path) {
  constexpr std::int64_t kLongestPlan = 16 << 20;
  const Result<std::string> text = read_file(path, kLongestPlan);
  if (!text) return std::nullopt;
  const std::optional<Trainer> trainer = recognize_plan(*text, path);
  if (!trainer) {
    if (!path.ends_with(".json")) return std::nullopt;
    if (text->find("\"traceEvents\"") != std::string::npos) {
      return invalid(path + " is a trace: lockstep report " + path + " shows its figures");
    }
    return invalid(path +
                   " is JSON, and a scenario is TOML: a model's config.json is named in it, "
                   "[model] hf_config = \"" +
                   path + "\"");
  }
  const bool asks = *trainer == Trainer::DeepSpeed;
  return invalid(path + " is a configuration of " + std::string(spoken_name(*trainer)) +
                 "; this makes a scenario of it, and says what it cannot take: lockstep import " +
                 std::string(command_name(*trainer)) + " " + path +
                 (asks ? " --model PRESET|config.json" : "") + " --out scenario.toml");
}

std::optional<Error> other_folder(const fs::path& folder) {
  const std::string name = folder.string();
  std::error_code ignored;
  if (const fs::path scenario = folder / "scenario.toml"; fs::exists(scenario, ignored)) {
    return invalid(name + " is a run folder: lockstep report " + name +
                   " shows its figures, lockstep run " + scenario.string() + " runs it again");
  }
  if (const fs::path config = folder / "config.json"; fs::exists(config, ignored)) {
    return invalid(name +
                   " is a model of Hugging Face's transformers: lockstep recommend --model " +
                   config.string() + " --cluster PRESET plans its training, lockstep import hf " +
                   name + " --out RUN takes its weights");
  }
  return invalid(name +
                 " is a folder, and a scenario is a file (TOML): lockstep list scenarios "
                 "names those that come with Lockstep");
}

struct KnownFile {
  const char *ending, *is, *command;
};
/// Files that are known by their names; the file follows the command.
constexpr KnownFile kKnownFiles[] = {
    {".csv", "a table of measurements", "lockstep validate"},
    {".gz", "a trace", "lockstep report"},
    {".pickle", "a snapshot of memory", "lockstep report"},
    {".sqlite", "a trace of Nsight Systems", "lockstep report"},
};

}  // namespace

std::optional<Error> other_than_scenario(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return other_folder(path);
  if (!fs::exists(path, ignored)) return std::nullopt;
  if (path.ends_with(".md")) {
    if (const Result<Lesson> lesson = read_lesson(path)) {
      return invalid(path + " is a page of the course: lockstep lesson " + path +
                     " shows it, lockstep run " + lesson->scenario + " runs its scenario");
    }
    return invalid(path +
                   " is a page (Markdown), and a scenario is TOML: lockstep list scenarios "
                   "names those that come with Lockstep, lockstep run "
                   "scenarios/quickstart.toml runs one");
  }
  for (const KnownFile& known : kKnownFiles) {
    if (!path.ends_with(known.ending)) continue;
    return invalid(path + " is " + known.is + ", and a scenario is TOML: " + known.command + " " +
                   path);
  }
  return foreign_plan(path);
}

}  // namespace lockstep
