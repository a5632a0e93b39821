#include "core/handover/plan_writer.hpp"

#include <algorithm>
#include <filesystem>

#include "core/base/nearest.hpp"
#include "core/handover/other_configuration.hpp"
#include "core/handover/words.hpp"
#include "core/scenario/document.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kOrder[] = {"model",        "training",   "optimizer",
                                       "lr_scheduler", "loss_scale", "parallelism",
                                       "local_sgd",    "power_sgd",  "activation_checkpoint",
                                       "checkpoint",   "cluster",    "framework"};

}  // namespace

std::int64_t whole_number(double value) {
  constexpr double kMost = 1e15;
  return value >= -kMost && value <= kMost ? static_cast<std::int64_t>(value)
                                           : static_cast<std::int64_t>(value < 0 ? -kMost : kMost);
}

std::int64_t product_of(std::initializer_list<std::int64_t> factors) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    product = std::min(kMost, product * std::clamp<std::int64_t>(factor, 1, kMost));
  }
  return product;
}

void PlanWriter::set(std::string_view key, const std::string& value, const std::string& from) {
  const std::size_t dot = key.find('.');
  sections_[std::string(key.substr(0, dot))][std::string(key.substr(dot + 1))] = value;
  from_[std::string(key)] = from;
  if (!from.empty()) plan_.taken.push_back(from + " -> " + std::string(key) + " = " + value);
}
void PlanWriter::set(std::string_view key, std::int64_t value, const std::string& from) {
  set(key, std::to_string(value), from);
}
void PlanWriter::number(std::string_view key, double value, const std::string& from) {
  set(key, format_number(value), from);
}
void PlanWriter::text(std::string_view key, std::string_view value, const std::string& from) {
  set(key, quote(value), from);
}
void PlanWriter::flag(std::string_view key, bool value, const std::string& from) {
  set(key, std::string(value ? "true" : "false"), from);
}

bool PlanWriter::has(std::string_view key) const {
  const std::size_t dot = key.find('.');
  const auto section = sections_.find(key.substr(0, dot));
  return section != sections_.end() && section->second.count(std::string(key.substr(dot + 1))) > 0;
}

void PlanWriter::lose(std::string sentence) {
  const auto said = std::find(plan_.lost.begin(), plan_.lost.end(), sentence);
  if (said == plan_.lost.end()) plan_.lost.push_back(std::move(sentence));
}

void PlanWriter::know_not(std::string sentence) {
  const auto said = std::find(plan_.unknown.begin(), plan_.unknown.end(), sentence);
  if (said == plan_.unknown.end()) plan_.unknown.push_back(std::move(sentence));
}

bool PlanWriter::assumes(const std::string& setting) const {
  return std::any_of(plan_.assumed.begin(), plan_.assumed.end(),
                     [&](const std::string& entry) { return entry.starts_with(setting + " "); });
}

std::int64_t PlanWriter::hidden_of(const PlanOptions& options) {
  PlanWriter writer(Trainer::DeepSpeed);
  writer.take_model(options);
  const LoadedScenario loaded = parse_scenario(writer.finish("").text, "", {});
  return loaded.ok() ? loaded.points.front().scenario.model.hidden : 0;
}

void PlanWriter::part(const std::vector<std::string>& settings) {
  const auto is_of = [](std::string_view entry, std::string_view name) {
    if (entry.starts_with("--")) entry.remove_prefix(2);
    return entry.starts_with(name) &&
           (entry.size() == name.size() ||
            std::string_view(" ,:=").find(entry[name.size()]) != std::string_view::npos);
  };
  for (const std::string& setting : settings) {
    bool found = false;
    for (std::vector<std::string>* list : {&plan_.unknown, &plan_.lost, &plan_.taken,
                                           &plan_.assumed, &plan_.without_effect, &plan_.derived}) {
      const auto mine = [&](const std::string& entry) { return is_of(entry, setting); };
      if (found) {
        std::erase_if(*list, mine);
      } else {
        found = std::any_of(list->begin(), list->end(), mine);
      }
    }
    if (!found) plan_.derived.push_back(setting);
  }
}

void PlanWriter::lose_unknown(const std::string& name, const std::string& shown) {
  std::vector<std::string> names;
  for (const ForeignName& row : foreign_names()) {
    if (!row.of(trainer_).empty()) names.emplace_back(row.of(trainer_));
  }
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return lose(shown + ": no scenario can say this beside the rest of the file");
  }
  // Most unknown names are other options, and no misspelt ones.
  const std::string near = nearest(name, names, std::max<std::size_t>(1, name.size() / 8));
  know_not(shown + ": no equivalent setting" +
           (near.empty() || near == name ? std::string() : "; did you mean " + near + "?"));
}

std::string PlanWriter::reason_for(const std::string& key) const {
  const auto found = from_.find(key);
  if (found != from_.end() && !found->second.empty()) return found->second;
  const std::string_view name = name_for(trainer_, key);
  const std::string dashes = trainer_ == Trainer::Megatron ? "--" : "";
  return name.empty() ? key + ", which the file does not say"
                      : "without " + dashes + std::string(name);
}

bool PlanWriter::take_model(const PlanOptions& options) {
  if (options.model.empty()) return false;
  namespace fs = std::filesystem;
  fs::path path(options.model);
  if (!path.has_parent_path() && path.extension() != ".json") {
    text("model.preset", options.model);
    return true;
  }
  if (fs::is_directory(path)) path /= "config.json";
  text("model.hf_config", fs::absolute(path).lexically_normal().string());
  return true;
}

std::int64_t PlanWriter::ranks_of_node(const PlanOptions& options) {
  std::vector<Error> errors;
  const ClusterSpec cluster = load_cluster(options.cluster, errors);
  constexpr std::int64_t kUsual = 8;
  return errors.empty() ? std::max(1, cluster.ranks_per_node()) : kUsual;
}

void PlanWriter::take_cluster(const PlanOptions& options, std::int64_t ranks, std::int64_t said) {
  const bool file = options.cluster.ends_with(".toml");
  text(file ? "cluster.profile" : "cluster.preset",
       file ? std::filesystem::absolute(options.cluster).string() : options.cluster);
  const std::int64_t per_node = ranks_of_node(options);
  const std::int64_t needed = std::max<std::int64_t>(1, (ranks + per_node - 1) / per_node);
  set("cluster.nodes", std::max<std::int64_t>(options.nodes > 0 ? options.nodes : said, needed));
  assume("the cluster: " + options.cluster + " (--cluster)");
}

bool PlanWriter::take_framework(const PlanOptions& options, const KnownOfRun& run,
                                const std::string& from) {
  std::vector<Error> errors;
  if (load_cluster(options.cluster, errors).device.is_host() || !errors.empty()) return false;
  KnownOfRun newest = run;
  if (stated_year(run.words) == 0) newest.year = kNewestReleases;
  const std::string preset =
      options.framework.empty() ? std::string(usual_framework(newest).preset) : options.framework;
  text("framework.preset", preset, from);
  if (from.empty())
    plan_.derived.push_back("framework.preset = " + quote(preset) + " (--framework)");
  return true;
}

PlanImport PlanWriter::finish(const std::string& file) {
  plan_.text = "# From " + std::filesystem::path(file).filename().string() + ", a file of " +
               std::string(spoken_name(trainer_)) + ": lockstep import " +
               std::string(command_name(trainer_)) + "\n";
  plan_.reasons = {""};
  plan_.places = {std::nullopt};
  for (const std::string_view name : kOrder) {
    const auto section = sections_.find(name);
    if (section == sections_.end()) continue;
    plan_.text += "\n[" + std::string(name) + "]\n";
    plan_.reasons.insert(plan_.reasons.end(), 2, "");
    plan_.places.insert(plan_.places.end(), 2, std::nullopt);
    for (const auto& [key, value] : section->second) {
      plan_.text += key + " = " + value + "\n";
      plan_.reasons.push_back(reason_for(std::string(name) + "." + key));
      const auto place = places_.find(plan_.reasons.back());
      plan_.places.push_back(place == places_.end() ? std::nullopt : std::optional(place->second));
    }
  }
  return std::move(plan_);
}

Result<PlanImport> import_plan(Trainer trainer, std::string_view text, const std::string& file,
                               const PlanOptions& options) {
  if (const auto other = other_configuration(text)) {
    Error error = invalid("this is " + *other);
    error.where = SourceSpan{file, 1, 1};
    return error;
  }
  if (trainer == Trainer::Torchtitan) return from_torchtitan(text, file, options);
  if (trainer == Trainer::Megatron) return from_megatron(text, file, options);
  return from_deepspeed(text, file, options);
}

}  // namespace lockstep
