// Help: what a command takes, and examples of it, as wide as the screen is.
#pragma once

#include <string>
#include <vector>

#include "core/format/table.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
class Option;
}  // namespace CLI

namespace lockstep {

/// A command line, without "lockstep", and what it does.
struct Example {
  const char *command, *arguments, *what;
};
/// The examples of a command; those of the program if it is empty.
std::vector<Example> examples_of(const std::string& command);

/// What stands for an option's value: "N", "FILE", "nccl|local"; empty for a flag.
std::string value_name(const CLI::Option& option);

/// The help of the program or of one of its commands.
std::string help_text(const CLI::App& app, const Screen& screen);
/// The same, and that of each of its commands.
std::string whole_help_text(const CLI::App& app, const Screen& screen);

}  // namespace lockstep
