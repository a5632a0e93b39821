// Other configurations: files of tools that no import reads. Internal to core/handover.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// What a text is, if it is a configuration of a tool that is known and not read, and what to
/// import instead: "a configuration of NeMo (YAML), which is not read: ..."; nullopt for all
/// others.
std::optional<std::string> other_configuration(std::string_view text);

}  // namespace lockstep
