// resolve: the tree of one scenario -> Scenario, presets and defaults filled in, validated.
#pragma once

#include <map>
#include <string>

#include "core/scenario/document.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/reader.hpp"

namespace lockstep {

/// Sound profiles by file, shared by the points of a sweep, which mostly name the same one.
using ProfileCache = std::map<std::string, ClusterSpec>;

/// Notes every fault; the result is meaningful only if none was noted. `file` locates what is
/// missing, and its folder is where relative paths start.
Scenario resolve(const Node& root, const std::string& file, ProfileCache& profiles,
                 Diagnostics& diagnostics);

/// [cluster] of a scenario: preset or profile, then the keys written beside it. False if preset or
/// profile could not be read, so that faults about the cluster would mislead.
bool resolve_cluster(const Node* section, const std::string& directory, ProfileCache& profiles,
                     Diagnostics& diagnostics, ClusterSpec& out);

/// [framework]: preset, then the keys written beside it. Faults are noted.
void resolve_framework(const Node* section, Diagnostics& diagnostics, FrameworkSpec& out);

/// [model]: preset or hf_config or sizes, with what follows from the sizes given. False likewise.
bool resolve_model(const Node* section, const std::string& directory, const Location& missing,
                   Diagnostics& diagnostics, HfModel& out);

}  // namespace lockstep
