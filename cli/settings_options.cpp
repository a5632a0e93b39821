#include "cli/settings_options.hpp"

#include <CLI/CLI.hpp>

namespace lockstep {

void add_settings(CLI::App* sub, std::vector<std::string>& set, const char* what) {
  sub->add_option("--set", set, std::string("override a key of ") + what + ", several times")
      ->type_name("SECTION.KEY=VALUE")
      ->take_all()
      ->expected(1);
  sub->add_option_function<std::string>(
         "--framework",
         [&set](const std::string& name) { set.push_back("framework.preset=" + name); },
         "simulate it as this software runs it (lockstep list frameworks)")
      ->type_name("NAME");
}

}  // namespace lockstep
