// Planning commands: the arguments of those that look for a layout: recommend and search.
#pragma once

#include <functional>

#include "cli/commands.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace lockstep {

class PlanningCommands {
 public:
  explicit PlanningCommands(const Console& console) : console_(console) {}
  /// Adds the commands to `app`. The one that was given is assigned to `command`; this object and
  /// `command` must outlive the parsing and the command.
  void add_to(CLI::App& app, std::function<int()>& command);

 private:
  void add_recommend(CLI::App* sub);
  void add_search(CLI::App* sub);
  void add_campaign(CLI::App* sub);

  const Console& console_;
  RecommendArguments recommend_;
  SearchArguments search_;
  CampaignArguments campaign_;
};

}  // namespace lockstep
