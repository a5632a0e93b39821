// Edited text: a scenario's text with overrides written into it, so that what sliders and --set
// changed can be saved, and comments stay where they are.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// `text` with every override "section.key=value" written into it: the value of a key that is there
/// is replaced, a key that is not there becomes a line of its section. All else stays to the byte.
/// Ensures that parse_scenario(result, file, {}) gives the scenarios of parse_scenario(text, file,
/// overrides). Errors: the first fault of the scenario; InvalidSpec if an override cannot be
/// written, because it fixes an axis of a [sweep] or lies in an inline table.
Result<std::string> with_overrides(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& overrides);

/// Overrides of `text` with which it is the scenario `wanted`: those of its keys whose values
/// differ, and no others. Errors: the first fault of a text on the way; Unsupported if no overrides
/// do it, because the text is a [sweep] or a list of tables differs.
Result<std::vector<std::string>> overrides_for(const std::string& text, const std::string& file,
                                               const Scenario& wanted);

}  // namespace lockstep
