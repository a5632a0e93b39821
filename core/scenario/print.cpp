#include <filesystem>
#include <utility>

#include "core/scenario/key_list.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/scenario/writer.hpp"

namespace lockstep {
namespace {

class SectionWriter {
 public:
  template <class T>
  void section(const char* name, const T& spec, bool printed) {
    if (!printed) return;
    Writer writer(name);
    describe(writer, spec);
    text += std::string("\n[") + name + "]\n";
    if constexpr (std::is_same_v<T, FrameworkSpec>) {
      text += "preset = " + quote(spec.preset) + "\n";
    }
    text += writer.text();
  }
  std::string text;
};

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

std::string print_scenario(const Scenario& scenario) {
  // The printed file will lie in another folder, that of its run, so relative paths become
  // absolute.
  Scenario s = scenario;
  std::vector<std::string*> paths = {&s.training.dataset, &s.validation.dataset,
                                     &s.strategy.pipeline_parallel_schedule_csv};
  for (CampaignPhaseSpec& phase : s.campaign.phases) paths.push_back(&phase.scenario);
  for (std::string* path : paths) {
    if (path->empty() || std::filesystem::path(*path).is_absolute()) continue;
    *path = std::filesystem::absolute(std::filesystem::path(s.directory) / *path)
                .lexically_normal()
                .string();
  }
  SectionWriter writer;
  describe_sections(writer, std::as_const(s));
  const std::string expected = s.expect.empty() ? "" : print_expectations(s.expect);
  return "name = " + quote(s.name) + "\n" + writer.text + expected;
}

std::vector<std::string> differences(const Scenario& from, const Scenario& to) {
  const auto before = values_of_keys(from);
  std::vector<std::string> changed;
  for (const auto& [key, value] : values_of_keys(to)) {
    const auto was = before.find(key);
    if (was == before.end() || was->second != value) changed.push_back(key + "=" + value);
  }
  return changed;
}

std::string print_cluster_profile(const ClusterSpec& cluster) {
  Writer writer("");
  describe(writer, cluster);
  return writer.text();
}

std::string print_framework_profile(const FrameworkSpec& framework) {
  Writer writer("");
  describe(writer, framework);
  return writer.text();
}

}  // namespace lockstep
