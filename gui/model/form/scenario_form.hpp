// ScenarioForm: the keys of a scenario that people vary, each with the values that it can take
// while the rest stays as it is. What defines a scenario (sizes of the model, optimizer, data,
// costs, figures of a device) and rarely used keys are edited in the text (docs/gui.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/scenario/key_list.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

enum class FormKind {
  Numbers,  // ascending
  Names,
  Switch,  // false or true
};

struct FormField {
  std::string key;    // "parallelism.pipeline_parallel_degree"
  std::string group;  // "Pipeline"
  std::string label;  // "Stages"
  std::string help;   // a sentence that explains it
  FormKind kind = FormKind::Numbers;
  std::vector<std::string> values;  // as TOML has them, without quotes
  /// Words for values that mean something else than their number: "-1" is "none".
  std::vector<std::pair<std::string, std::string>> words = {};
  /// Overrides of which one is set along with a value that has a fault without it.
  std::vector<std::string> helpers = {};
  std::string text_of(const std::string& value) const;  // as the user reads it
  /// Its value of a scenario's, as values_of_keys() lists them.
  std::string value_in(const KeyValues& values) const;
};
const std::vector<FormField>& form_fields();

/// The state of a field in one document.
struct FieldState {
  std::vector<std::string> values;  // the values without faults, and the present one
  std::vector<std::string> helper;  // by value: the override that is set along; mostly empty
  std::string why_not;              // why there is no other value: the fault of one that was tried
  int at = -1;                      // index of the present value
  bool overridden = false;          // whether the key is overridden
  std::string own;                  // the value without the override; empty if that has a fault
  bool operator==(const FieldState&) const = default;
};

/// The states of all form_fields(). Tries every value of every field. Empty if the document itself
/// has faults, or if `cancelled` was set.
std::vector<FieldState> form_state(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& overrides,
                                   const Cancelled& cancelled);

}  // namespace lockstep::gui
