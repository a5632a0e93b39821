// Shipped: the scenarios that come with Lockstep, wherever it was built or installed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The folder of the shipped scenarios: `scenarios` or `share/lockstep/scenarios` in the folder of
/// the executable or of the shell, or in one above these; empty if there is none.
std::filesystem::path shipped_scenarios();

/// Whether a file is in the folder of the shipped scenarios, by whatever path it is named.
bool is_shipped(const std::filesystem::path& file);

/// The scenario files in `folder` and below, as paths relative to it, sorted.
std::vector<std::filesystem::path> scenario_files(const std::filesystem::path& folder);

/// The comment at the head of a scenario's text, as one paragraph; empty if there is none.
std::string opening_words(std::string_view text);

}  // namespace lockstep
