#include "core/session/training_settings.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>

#include "core/base/nearest.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kChecksums = "checksums";  // accepted for checkpoints without a manifest

/// Keys of the sections that do not decide what is trained. Batch and data stand in the
/// settings under the same names, but as what they come to.
constexpr std::array<std::string_view, 10> kFree = {"model.name",
                                                    "training.local_batch_size",
                                                    "training.global_batch_size",
                                                    "training.dataset",
                                                    "training.steps",
                                                    "training.total_tokens",
                                                    "training.seed",
                                                    "training.on_nonfinite",
                                                    "training.seq_len",
                                                    "lr_scheduler.scale_with_ranks"};

bool decides(const std::string& key) {
  const auto in = [&](std::string_view section) { return key.starts_with(section); };
  return (in("model.") || in("lora.") || in("training.") || in("optimizer.") ||
          in("lr_scheduler.")) &&
         std::find(kFree.begin(), kFree.end(), key) == kFree.end();
}

}  // namespace

Settings keys_of(const std::string& scenario) {
  Settings settings;
  std::map<std::string, int> times;  // how often a section has come
  std::string section;
  std::istringstream lines(scenario);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) {
      const std::string name =
          line.substr(line.find_first_not_of('['), line.find(']') - line.find_first_not_of('['));
      const int time = times[name]++;
      section = name + (time > 0 ? "[" + std::to_string(time) + "]" : "") + ".";
      continue;
    }
    const std::size_t sign = line.find(" = ");
    if (sign == std::string::npos) continue;
    settings.emplace_back(section + line.substr(0, sign), line.substr(sign + 3));
  }
  return settings;
}

Settings training_settings(const Program& program, const std::string& scenario,
                           const std::string& data_digest) {
  Settings settings;
  for (auto& [key, value] : keys_of(scenario)) {
    if (decides(key)) settings.emplace_back(key, value);
  }
  const Samples& samples = program.input.samples;
  const Training& training = program.training;
  settings.emplace_back("training.global_batch_size", std::to_string(samples.per_step));
  settings.emplace_back("training.seq_len", std::to_string(samples.length));
  settings.emplace_back("training.seed", std::to_string(training.seed));
  settings.emplace_back("training.dataset", data_digest);
  // The number of steps decides nothing unless the learning rate depends on it.
  if (training.learning_rate.decay_steps > 0) {
    settings.emplace_back("training.steps", std::to_string(training.steps));
  }
  settings.emplace_back("lr_scheduler.scale_with_ranks",
                        "a factor of " + std::to_string(training.learning_rate.factor));
  return settings;
}

Result<void> check_settings(const Settings& saved, const Settings& own,
                            const std::vector<std::string>& accepted) {
  std::vector<std::string> names{std::string(kChecksums)};
  for (const auto& [key, value] : own) names.push_back(key);
  for (const std::string& name : accepted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = nearest(name, names);
    return invalid("--accept " + name + ": there is no such setting" +
                   (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  std::string differences, options;
  const std::map<std::string, std::string> before(saved.begin(), saved.end());
  for (const auto& [key, value] : own) {
    const auto old = before.find(key);
    if (old == before.end() || old->second == value ||
        std::find(accepted.begin(), accepted.end(), key) != accepted.end()) {
      continue;
    }
    differences += "\n  " + key + ": " + old->second + " in the checkpoint, " + value + " now";
    options += " --accept " + key;
  }
  if (differences.empty()) return {};
  return invalid("the checkpoint was trained with other settings:" + differences +
                 "\nSet them as they were, or go on all the same with" + options);
}

}  // namespace lockstep
