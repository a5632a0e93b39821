#include "cli/key_options.hpp"

namespace lockstep {

std::vector<std::string> with_key_options(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    if (*argument == "--") return result.insert(result.end(), argument, arguments.end()), result;
    const std::string name = argument->substr(0, argument->find('='));
    if (!name.starts_with("--") || name.find('.') == std::string::npos) {
      result.push_back(*argument);
      continue;
    }
    std::string setting = argument->substr(2);
    if (name == *argument) {
      const auto next = argument + 1;
      const bool given = next != arguments.end() && !next->starts_with("--");
      setting += "=" + (given ? *next : "true");
      if (given) ++argument;
    }
    result.insert(result.end(), {"--set", setting});
  }
  return result;
}

}  // namespace lockstep
