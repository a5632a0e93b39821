// nearest: finds the valid name that a misspelt one probably means, for error messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The candidate with the least edit distance (Damerau-Levenshtein, case-insensitive) to `name`;
/// empty when nothing is as close as `within`, by default max(2, half the length). Of equally near
/// candidates the first is taken.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates,
                    std::optional<std::size_t> within = std::nullopt);

/// The end of a message about a name that is none of `candidates`: "; did you mean 'pp'?", or all
/// of them where none is near.
std::string suggest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace lockstep
