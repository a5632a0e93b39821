// resolve: makes a Scenario from the tree of one, fills in presets and defaults, and validates it.
#pragma once

#include <map>
#include <string>

#include "core/hugging_face/config.hpp"
#include "core/scenario/document.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/reader.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

/// Profiles without faults, by file. The points of a sweep share them, because most name the same
/// one.
using ProfileCache = std::map<std::string, ClusterSpec>;

/// Notes every fault; the result is meaningful only if none was noted. `file` is the place of
/// faults about what is missing, and relative paths start in its folder.
Scenario resolve(const Node& root, const std::string& file, Software software,
                 ProfileCache& profiles, Diagnostics& diagnostics);

/// Resolves [cluster] of a scenario: the preset or profile first, then the keys beside it, which
/// win. Returns false if preset or profile could not be read, so that faults about the cluster
/// would mislead.
bool resolve_cluster(const Node* section, const std::string& directory, ProfileCache& profiles,
                     Diagnostics& diagnostics, ClusterSpec& out);

/// [framework]: preset or profile, or else the preset that `out` names; then the keys written
/// beside it. Faults are noted.
void resolve_framework(const Node* section, const std::string& directory, Diagnostics& diagnostics,
                       FrameworkSpec& out);

/// Resolves [model]: a preset, hf_config or sizes, and what follows from the sizes given. Returns
/// false if preset or hf_config could not be read.
bool resolve_model(const Node* section, const std::string& directory, const Location& missing,
                   Diagnostics& diagnostics, HfModel& out);

}  // namespace lockstep
