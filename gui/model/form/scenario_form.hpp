// ScenarioForm: what people vary of a scenario, each key with the values it can take while the rest
// stays as it is. What a scenario is about (sizes of the model, optimizer, data, costs, the numbers
// of a device) and rarely used keys are left to the text: docs/gui.md.
#pragma once

#include <string>
#include <vector>

#include "core/spec/scenario.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

enum class FormKind {
  Numbers,  // ascending
  Names,
  Switch,  // false, true
};

struct FormField {
  std::string key;    // "parallelism.pipeline_parallel_degree"
  std::string group;  // "Pipeline"
  std::string label;  // "Stages"
  std::string help;   // one sentence
  FormKind kind = FormKind::Numbers;
  std::vector<std::string> values;  // as in TOML, without quotes
  std::string (*value)(const Scenario&);
};
const std::vector<FormField>& form_fields();

/// A field in one document.
struct FieldState {
  std::vector<std::string> values;  // those that keep the scenario free of faults, and the one now
  int at = -1;                      // the one now
  bool overridden = false;          // its key is
  std::string own;                  // the value without that override; empty: a fault
  bool operator==(const FieldState&) const = default;
};

/// By form_fields(). Tries every value of every field; empty: the document itself has faults, or
/// `cancelled` was set.
std::vector<FieldState> form_state(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& overrides,
                                   const Cancelled& cancelled);

}  // namespace lockstep::gui
