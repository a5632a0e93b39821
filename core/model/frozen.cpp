#include "core/model/frozen.hpp"

#include <algorithm>
#include <string>

#include "core/base/nearest.hpp"

namespace lockstep {

std::vector<Error> faults_of_frozen(const ModelSpec& spec, const Model& model) {
  if (spec.frozen.empty()) return {};
  std::vector<std::string> names;
  for (const UnitLayout& unit : model.units) {
    for (const Parameter& parameter : unit.parameters) names.push_back(parameter.name);
  }
  std::vector<Error> faults;
  for (const std::string& pattern : spec.frozen) {
    ModelSpec alone;
    alone.frozen = {pattern};
    const auto means = [&](const std::string& name) { return !alone.trains(name); };
    if (std::any_of(names.begin(), names.end(), means)) continue;
    const std::string near = nearest(pattern, names);
    faults.push_back(
        invalid("model.frozen: the model has no parameter '" + pattern + "'" +
                (near.empty() ? "; they are called " + names.front() + ", … " + names.back()
                              : "; did you mean '" + near + "'?")));
  }
  const auto trains = [&](const std::string& name) { return spec.trains(name); };
  if (std::none_of(names.begin(), names.end(), trains)) {
    faults.push_back(
        invalid("model.frozen: all parameters are frozen, so there is nothing to train"));
  }
  return faults;
}

}  // namespace lockstep
