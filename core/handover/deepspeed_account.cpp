#include "core/handover/deepspeed_account.hpp"

#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Settings that change neither what is computed nor where, by their beginnings.
constexpr std::string_view kNoEffect[] = {
    "steps_per_print",
    "wall_clock_breakdown",
    "memory_breakdown",
    "dump_state",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "comet",
    "comms_logger",
    "flops_profiler",
    "monitor",
    "checkpoint",
    "load_universal_checkpoint",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "autotuning",
    "cuda_visible_devices",
    "aio",
    "disable_allgather",
    "elasticity",
    "nebula",
    "dataloader_drop_last",
    "use_data_before_expert_parallel",
    "seed",
    "graph_harvesting",
    "optimizer.params.torch_adam",
    "optimizer.params.adam_w_mode",
    "optimizer.params.bias_correction",
    "optimizer.params.cuda_aware",
    "optimizer.params.comm_backend_name",
    "optimizer.legacy_fusion",
    "zero_optimization.contiguous_gradients",
    "zero_optimization.round_robin_gradients",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save",
    "zero_optimization.offload_optimizer.",
    "zero_optimization.offload_param.",
    "zero_optimization.elastic_checkpoint",
    "zero_optimization.load_from_fp32_weights",
    "zero_optimization.ignore_unused_parameters",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.prefetch_bucket_size",
    "zero_optimization.gather_16bit_weights_on_model_save",
    "zero_optimization.gather_fp16_weights_on_model_save",
    "zero_optimization.stage3_max_live_parameters",
    "zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.max_live_parameters",
    "zero_optimization.max_reuse_distance",
    "fp16.auto_cast",
    "fp16.consecutive_hysteresis",
    "bf16.auto_cast",
    "bf16.loss_scale",
    "bf16.hysteresis",
    "bf16.min_loss_scale",
    "bf16.initial_scale_power",
    "activation_checkpointing.number_checkpoints",
    "activation_checkpointing.profile",
    "activation_checkpointing.synchronize_checkpoint_boundary"};

/// Parts of the file whose settings are accounted for one by one.
const std::set<std::string, std::less<>> kPartsOfOurs = {"zero_optimization", "optimizer",
                                                         "scheduler", "fp16", "bf16"};

}  // namespace

DeepSpeedAccount::DeepSpeedAccount(const JsonSettings& config)
    : plan_(Trainer::DeepSpeed), places_(config.places) {
  flatten(config.values, "");
  for (const Setting& setting : settings_) {
    plan_.locate(shown(setting), places_.at(setting.name));
    if (kPartsOfOurs.contains(setting.name) && !setting.value.is_object()) {
      refuse(setting, "an object { ... } is expected");
    }
  }
}

void DeepSpeedAccount::flatten(const Json& object, const std::string& path) {
  for (const auto& [key, value] : object.items()) {
    const bool switched_off = value.is_object() && value.contains("enabled") &&
                              value["enabled"].is_boolean() && !value["enabled"].get<bool>();
    if (switched_off) {
      plan_.ignore(path + key + ", which is not enabled");
      switched_off_.push_back(path + key);
    } else if (value.is_null()) {
      plan_.ignore(path + key + ", which is null");
      switched_off_.push_back(path + key);
    } else if (value.is_object() && !value.empty()) {
      flatten(value, path + key + ".");
    } else {
      settings_.push_back({path + key, value});
    }
  }
}

const DeepSpeedAccount::Setting* DeepSpeedAccount::find(std::string_view name) {
  for (const Setting& setting : settings_) {
    if (setting.name != name && short_name(name) != setting.name) continue;
    used_.insert(setting.name);
    return &setting;
  }
  return nullptr;
}

std::string_view DeepSpeedAccount::short_name(std::string_view name) {
  struct Row {
    std::string_view full, brief;
  };
  constexpr Row kRows[] = {
      {"zero_optimization.stage3_param_persistence_threshold",
       "zero_optimization.param_persistence_threshold"},
      {"zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.prefetch_bucket_size"},
      {"zero_optimization.stage3_max_live_parameters", "zero_optimization.max_live_parameters"},
      {"zero_optimization.stage3_max_reuse_distance", "zero_optimization.max_reuse_distance"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save",
       "zero_optimization.gather_16bit_weights_on_model_save"},
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save",
       "zero_optimization.gather_fp16_weights_on_model_save"}};
  for (const Row& row : kRows) {
    if (row.full == name) return row.brief;
  }
  return {};
}

std::string DeepSpeedAccount::shown(const Setting& s) { return s.name + " = " + s.value.dump(); }
void DeepSpeedAccount::refuse(const Setting& setting, const std::string& expected) {
  const SourceSpan& where = places_.at(setting.name);
  const auto order = [](const SourceSpan& span) { return std::tie(span.line, span.column); };
  if (fault_ && order(*fault_->where) <= order(where)) return;
  fault_ = Error{ErrorKind::InvalidSpec, shown(setting) + ": " + expected, where};
}

bool DeepSpeedAccount::is_auto(const Setting& setting) { return setting.value == "auto"; }

const DeepSpeedAccount::Setting* DeepSpeedAccount::number_at(std::string_view name, double& value) {
  const Setting* setting = find(name);
  if (setting == nullptr) return nullptr;
  if (setting->value.is_number()) {
    value = setting->value.get<double>();
    return setting;
  }
  if (is_auto(*setting)) return nullptr;
  if (setting->value.is_string()) {
    char* end = nullptr;
    const std::string text = setting->value.get<std::string>();
    value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == 0 && std::isfinite(value)) return setting;
  }
  refuse(*setting, "a number is expected");
  return nullptr;
}

const DeepSpeedAccount::Setting* DeepSpeedAccount::count_at(std::string_view name, double& value) {
  const Setting* setting = number_at(name, value);
  if (setting != nullptr && (value < 1 || value != std::floor(value))) {
    refuse(*setting, "a whole number above 0 is expected");
  }
  return setting;
}

double DeepSpeedAccount::number(std::string_view name, double otherwise) {
  double value = otherwise;
  return number_at(name, value) != nullptr ? value : otherwise;
}

bool DeepSpeedAccount::flag(std::string_view name, bool otherwise) {
  const Setting* setting = find(name);
  if (setting == nullptr || is_auto(*setting)) return otherwise;
  const Json& value = setting->value;
  if (value.is_boolean()) return value.get<bool>();
  if (value == 0 || value == 1) return value == 1;
  if (value == "true" || value == "True") return true;
  if (value == "false" || value == "False") return false;
  refuse(*setting, "true or false is expected");
  return otherwise;
}

std::string DeepSpeedAccount::word(std::string_view name) {
  const Setting* setting = find(name);
  if (setting == nullptr || is_auto(*setting)) return "";
  if (setting->value.is_string()) return setting->value.get<std::string>();
  refuse(*setting, "text in double quotes is expected");
  return "";
}

void DeepSpeedAccount::take(std::string_view key) {
  double value = 0;
  if (const Setting* s = number_at(name_of(key), value)) plan_.number(key, value, shown(*s));
}

void DeepSpeedAccount::take_whole(std::string_view key) {
  double value = 0;
  if (const Setting* s = number_at(name_of(key), value)) {
    plan_.set(key, whole_number(value), shown(*s));
  }
}

bool DeepSpeedAccount::is_pair(const Setting& setting) {
  if (is_auto(setting)) return false;
  const Json& value = setting.value;
  const auto is_number = [](const Json& item) { return item.is_number() || item.is_null(); };
  if (value.is_array() && value.size() == 2 && is_number(value[0]) && is_number(value[1])) {
    return true;
  }
  refuse(setting, "a list of two numbers is expected");
  return false;
}

void DeepSpeedAccount::ignore_all(std::string_view begin, const std::string& why) {
  for (const Setting& setting : settings_) {
    if (!setting.name.starts_with(begin) || used_.contains(setting.name)) continue;
    used_.insert(setting.name);
    plan_.ignore(setting.name + ", " + why);
  }
}

void DeepSpeedAccount::account_for_rest() {
  for (const Setting& setting : settings_) {
    if (used_.count(setting.name) > 0) continue;
    bool harmless = setting.value.is_boolean() && !setting.value.get<bool>();
    for (const std::string_view begin : kNoEffect) harmless |= setting.name.starts_with(begin);
    if (harmless) {
      plan_.ignore(setting.name);
    } else {
      plan_.know_not(shown(setting) + ": no equivalent setting");
    }
  }
  for (const Setting& setting : settings_) {
    if (!is_auto(setting) || plan_.assumes(setting.name)) continue;
    plan_.assume(shown(setting) + ": the script's argument says it, and a default stands here");
  }
  std::vector<std::string> names = switched_off_;
  for (const Setting& setting : settings_) names.push_back(setting.name);
  plan_.part(names);
}

}  // namespace lockstep
