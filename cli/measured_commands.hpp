// Measured commands: the arguments of those that compare simulation with measurements: validate,
// collective and fit.
#pragma once

#include <functional>

#include "cli/commands.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace lockstep {

class MeasuredCommands {
 public:
  explicit MeasuredCommands(const Console& console) : console_(console) {}
  /// Adds the commands to `app`. The one that was given is assigned to `command`; this object and
  /// `command` must outlive the parsing and the command.
  void add_to(CLI::App& app, std::function<int()>& command);

 private:
  void add_validate(CLI::App* sub);
  void add_collective(CLI::App* sub);
  void add_fit(CLI::App* sub);

  const Console& console_;
  ValidateArguments validate_;
  CollectiveArguments collective_;
  FitArguments fit_;
};

}  // namespace lockstep
