// ScenarioForm: the numbers of a scenario that people vary, each with the values it can take while
// the rest stays as it is.
#pragma once

#include <string>
#include <vector>

#include "core/spec/scenario.hpp"
#include "gui/model/run_view.hpp"

namespace lockstep::gui {

struct FormField {
  std::string key;                  // "parallelism.pipeline_parallel_degree"
  std::string group;                // "Pipeline"
  std::string label;                // "Stages"
  std::string help;                 // one sentence
  bool names = false;               // values are names, not numbers
  std::vector<std::string> values;  // as in TOML, without quotes; numbers ascend
  std::string (*value)(const Scenario&);
};
const std::vector<FormField>& form_fields();

/// A field in one document.
struct FieldState {
  std::vector<std::string> values;  // those that keep the scenario free of faults, and the one now
  int at = -1;                      // the one now
  bool overridden = false;          // it is not the text's own
  bool operator==(const FieldState&) const = default;
};

/// By form_fields(). Tries every value of every field; empty: the document itself has faults, or
/// `cancelled` was set.
std::vector<FieldState> form_state(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& overrides,
                                   const Cancelled& cancelled);

}  // namespace lockstep::gui
