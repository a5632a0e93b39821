// Completion: what a shell may offer for the last word of a command line. The shells' scripts ask
// `lockstep complete`, so that they know of nothing themselves.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace lockstep {

/// What the last of `words` can become; `words` are those behind the program's name, the last may
/// be empty. Nothing where a path is expected: the shell knows files.
std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words);

/// The shells that have a script.
inline const std::vector<std::string> kShells = {"bash", "zsh", "fish"};
/// What a shell is to read so that it completes `lockstep`.
std::string completion_script(const std::string& shell);

}  // namespace lockstep
