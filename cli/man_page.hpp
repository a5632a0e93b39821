// Man page: the commands and their options as troff, from the same definitions as --help.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace lockstep {

/// The page lockstep(1) in the macros of man(7).
std::string man_page(const CLI::App& app);

}  // namespace lockstep
