#include <filesystem>
#include <map>
#include <sstream>

#include "core/scenario/document.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/scenario/schema.hpp"

namespace lockstep {
namespace {

/// Writes the fields of a spec as the lines of one table; the inverse of Reader.
class Writer {
 public:
  explicit Writer(std::string path) : path_(std::move(path)) {}

  void field(const char* key, bool value) { line(key, value ? "true" : "false"); }
  void field(const char* key, int value) { line(key, std::to_string(value)); }
  void field(const char* key, std::int64_t value) { line(key, std::to_string(value)); }
  void field(const char* key, std::uint64_t value) {
    line(key, std::to_string(static_cast<std::int64_t>(value)));  // signed, as Reader reads it
  }
  void field(const char* key, double value, UnitPrefix prefix = UnitPrefix::One) {
    line(key, format_number(from_si(prefix, value)));
  }
  void field(const char* key, const std::string& value) { line(key, quote(value)); }
  void field(const char* key, const std::vector<int>& values) {
    std::string text;
    for (const int v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
    line(key, "[" + text + "]");
  }
  void field(const char* key, const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& v : values) text += (text.empty() ? "" : ", ") + quote(v);
    line(key, "[" + text + "]");
  }
  void field(const char* key, const std::vector<double>& values) {
    std::string text;
    for (const double v : values) text += (text.empty() ? "" : ", ") + format_number(v);
    line(key, "[" + text + "]");
  }
  void field(const char* key, Bytes value, UnitPrefix prefix) {
    field(key, static_cast<double>(value.v), prefix);
  }
  template <class Dim>
  void field(const char* key, Quantity<Dim> value, UnitPrefix prefix) {
    field(key, value.v, prefix);
  }
  void field(const char* key, const std::vector<PeakRate>& peaks) {
    std::string text;
    for (const PeakRate& peak : peaks) {
      text += (text.empty() ? "" : ", ") + std::string(to_string(peak.dtype)) + " = " +
              format_number(from_si(UnitPrefix::Tera, peak.rate.v));
    }
    line(key, "{ " + text + " }");
  }
  void field(const char* key, const std::vector<EfficiencyPoint>& points) {
    std::string text;
    for (const EfficiencyPoint& p : points) {
      text += (text.empty() ? "[" : ", [") + format_number(p.ideal.v) + ", " +
              format_number(p.efficiency) + "]";
    }
    line(key, "[" + text + "]");
  }
  template <class E>
  requires std::is_enum_v<E>
  void field(const char* key, E value) {
    for (const auto& [name, choice] : choices(E{})) {
      if (choice == value) line(key, quote(name));
    }
  }
  template <class T>
  void field(const char* key, const std::optional<T>& value) {
    if (value) field(key, *value);
  }
  template <class T>
  void table(const char* key, T& value) {
    Writer inner(path_.empty() ? key : path_ + "." + key);
    describe(inner, value);
    tables_ += "\n[" + inner.path_ + "]\n" + inner.text();
  }
  template <class T>
  void tables(const char* key, std::vector<T>& values) {
    if (values.empty()) line(key, "[]");
    for (T& value : values) {
      Writer inner(path_.empty() ? key : path_ + "." + key);
      describe(inner, value);
      tables_ += "\n[[" + inner.path_ + "]]\n" + inner.text();
    }
  }

  std::string text() const { return lines_ + tables_; }

 private:
  void line(const char* key, const std::string& value) {
    lines_ += std::string(key) + " = " + value + "\n";
  }
  std::string path_, lines_, tables_;
};

template <class T>
std::string print_section(const char* name, T spec) {
  Writer writer(name);
  describe(writer, spec);
  return std::string("\n[") + name + "]\n" + writer.text();
}

std::string print_expectations(const std::vector<Expectation>& list) {
  std::string text = "\n[expect]\n";
  for (const Expectation& e : list) {
    text += quote(e.key) + " = { ";
    if (e.min || e.max) {
      if (e.min) text += "min = " + format_number(*e.min);
      if (e.min && e.max) text += ", ";
      if (e.max) text += "max = " + format_number(*e.max);
    } else {
      text += "value = " + format_number(e.value) + ", relative = " + format_number(e.relative) +
              ", absolute = " + format_number(e.absolute);
    }
    text += " }\n";
  }
  return text;
}

}  // namespace

std::string print_scenario(const Scenario& s) {
  // The printed file will lie in another folder, that of its run, so relative paths become
  // absolute.
  const auto absolute = [&](std::string& path) {
    if (path.empty() || std::filesystem::path(path).is_absolute()) return;
    path = std::filesystem::absolute(std::filesystem::path(s.directory) / path)
               .lexically_normal()
               .string();
  };
  TrainingSpec training = s.training;
  absolute(training.dataset);
  ValidationSpec validation = s.validation;
  absolute(validation.dataset);
  CampaignSpec campaign = s.campaign;
  for (CampaignPhaseSpec& phase : campaign.phases) absolute(phase.scenario);
  StrategySpec strategy = s.strategy;
  absolute(strategy.pipeline_parallel_schedule_csv);
  std::string text = "name = " + quote(s.name) + "\n";
  text += print_section("model", s.model);
  if (s.model.lora != LoraSpec{}) text += print_section("lora", s.model.lora);
  text += print_section("training", training);
  text += print_section("activation_checkpoint", s.activation_checkpoint);
  text += print_section("optimizer", s.optimizer);
  text += print_section("lr_scheduler", s.lr_scheduler);
  if (s.training.scales_loss()) text += print_section("loss_scale", s.loss_scale);
  text += print_section("parallelism", strategy);
  if (s.strategy.trains_apart()) text += print_section("local_sgd", s.strategy.local_sgd);
  if (s.strategy.power_sgd != PowerSgdSpec{}) {
    text += print_section("power_sgd", s.strategy.power_sgd);
  }
  text += print_section("checkpoint", s.checkpoint);
  if (s.validation != ValidationSpec{}) text += print_section("validation", validation);
  if (s.campaign != CampaignSpec{}) text += print_section("campaign", campaign);
  if (s.costs) text += print_section("costs", *s.costs);
  text += print_section("what_if", s.what_if);
  text += print_section("cluster", s.cluster);
  if (s.cluster.framework != FrameworkSpec{}) {
    text += "\n[framework]\npreset = " + quote(s.cluster.framework.preset) + "\n";
    Writer writer("framework");
    FrameworkSpec framework = s.cluster.framework;
    describe(writer, framework);
    text += writer.text();
  }
  if (s.cluster.loader != DataLoaderSpec{}) text += print_section("data_loader", s.cluster.loader);
  if (!s.expect.empty()) text += print_expectations(s.expect);
  return text;
}

std::vector<std::string> differences(const Scenario& from, const Scenario& to) {
  // Values of a printed scenario by "section.key"; a value takes one line.
  const auto values = [](const Scenario& s) {
    std::map<std::string, std::string> found;
    std::istringstream text(print_scenario(s));
    std::string section;
    for (std::string line; std::getline(text, line);) {
      const std::size_t equals = line.find(" = ");
      if (line.starts_with("[")) {
        section = line.substr(1, line.find(']') - 1);
      } else if (equals != std::string::npos && !section.starts_with("[") && section != "expect") {
        if (section.empty()) continue;  // the name, which is usually the file's
        found[section + "." + line.substr(0, equals)] = line.substr(equals + 3);
      }
    }
    return found;
  };
  const auto before = values(from);
  std::vector<std::string> changed;
  for (const auto& [key, value] : values(to)) {
    const auto was = before.find(key);
    if (was == before.end() || was->second != value) changed.push_back(key + "=" + value);
  }
  return changed;
}

std::vector<ScenarioKey> scenario_keys() {
  // Keys that say where a section comes from; they are resolved before the others are read.
  std::vector<ScenarioKey> keys = {{"model.preset", ""},     {"model.hf_config", ""},
                                   {"cluster.preset", ""},   {"cluster.profile", ""},
                                   {"framework.preset", ""}, {"framework.profile", ""}};
  const Scenario s;
  const std::string text =
      print_section("model", s.model) + print_section("lora", s.model.lora) +
      print_section("training", s.training) +
      print_section("activation_checkpoint", s.activation_checkpoint) +
      print_section("optimizer", s.optimizer) + print_section("lr_scheduler", s.lr_scheduler) +
      print_section("loss_scale", s.loss_scale) + print_section("parallelism", s.strategy) +
      print_section("local_sgd", s.strategy.local_sgd) +
      print_section("power_sgd", s.strategy.power_sgd) + print_section("checkpoint", s.checkpoint) +
      print_section("validation", s.validation) + print_section("campaign", s.campaign) +
      print_section("costs", CostsSpec{}) + print_section("what_if", s.what_if) +
      print_section("cluster", s.cluster) + print_section("framework", s.cluster.framework) +
      print_section("data_loader", s.cluster.loader);
  std::istringstream lines(text);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) section = line.substr(1, line.size() - 2);
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    keys.push_back({section + "." + line.substr(0, equals), line.substr(equals + 3)});
  }
  return keys;
}

std::string print_cluster_profile(const ClusterSpec& cluster) {
  ClusterSpec copy = cluster;
  Writer writer("");
  describe(writer, copy);
  return writer.text();
}

std::string print_framework_profile(const FrameworkSpec& framework) {
  FrameworkSpec copy = framework;
  Writer writer("");
  describe(writer, copy);
  return writer.text();
}

}  // namespace lockstep
