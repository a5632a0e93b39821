// Model commands: the arguments of what brings models and texts in, uses them and takes them out:
// import, data, sample and export.
#pragma once

#include <functional>
#include <string>

#include "cli/commands.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace lockstep {

class ModelCommands {
 public:
  explicit ModelCommands(const Console& console) : console_(console) {}
  /// Adds the commands to `app`. The one that was given is assigned to `command`; this object and
  /// `command` must outlive the parsing and the command.
  void add_to(CLI::App& app, std::function<int()>& command);

 private:
  void add_sample(CLI::App* sub);
  void add_import(CLI::App* sub);
  void add_export(CLI::App* sub);
  void add_data(CLI::App* sub);

  const Console& console_;
  SampleArguments sample_;
  WeightsArguments weights_;
  DataArguments data_;
};

}  // namespace lockstep
