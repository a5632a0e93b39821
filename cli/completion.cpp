#include "cli/completion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "backends/backends.hpp"
#include "core/scenario/key_list.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

/// The choices that a CLI::IsMember check shows as "{a,b}" in the option's type.
Words choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

/// The values that an option or a positional argument takes, as far as they have names.
Words values_of(const CLI::App& command, const CLI::Option& option) {
  const std::string name = option.get_name();
  const std::string& of = command.get_name();
  if (name == "--cluster") return cluster_preset_names();
  if (name == "--model") return model_preset_names();
  if (name == "--backend") return backend_names();
  if (name == "--set" || name == "--accept") {
    Words keys;
    for (const ScenarioKey& key : scenario_keys()) {
      keys.push_back(key.name + (name == "--set" ? "=" : ""));
    }
    return keys;
  }
  if (of == "help") {
    Words commands;
    for (const CLI::App* sub : command.get_parent()->get_subcommands({})) {
      if (!sub->get_group().empty()) commands.push_back(sub->get_name());
    }
    return commands;
  }
  if (of == "show" && name == "what") return {"program", "schedule", "memory", "model"};
  return choices_of(option);
}

/// The values of a key of a scenario, as far as they have names.
Words values_of_key(const std::string& key) {
  if (key == "model.preset") return model_preset_names();
  if (key == "cluster.preset") return cluster_preset_names();
  if (key == "framework.preset") return framework_preset_names();
  Words names;
  if (key == "parallelism.pipeline_parallel_schedule") {
    for (const ScheduleRules& rules : kSchedules) names.emplace_back(rules.name);
  }
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

}  // namespace

Words completions(const CLI::App& app, const Words& words) {
  const std::string last = words.empty() ? "" : words.back();
  const CLI::App* command = &app;
  const CLI::Option* open = nullptr;  // the option whose value comes next
  std::size_t positional = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (open) {
      open = nullptr;
    } else if (word.starts_with('-')) {
      const CLI::Option* option = command->get_option_no_throw(word.substr(0, word.find('=')));
      if (option && takes_value(*option) && word.find('=') == std::string::npos) open = option;
    } else {
      const auto subs =
          command->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
      positional = subs.empty() ? positional + 1 : 0;
      if (!subs.empty()) command = subs.front();
    }
  }
  Words all;
  const std::size_t equals = last.find('=');
  if (open && open->get_name() == "--set" && equals != std::string::npos) {
    for (const std::string& value : values_of_key(last.substr(0, equals))) {
      all.push_back(last.substr(0, equals + 1) + value);
    }
  } else if (open) {
    all = values_of(*command, *open);
  } else if (last.starts_with('-')) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
    }
    // Every key is an option; they are too many to be offered before one is begun.
    if (last.size() > 2 && command->get_option_no_throw("--set") != nullptr) {
      for (const ScenarioKey& key : scenario_keys()) all.push_back("--" + key.name);
    }
  } else {
    for (const CLI::App* sub : command->get_subcommands({})) {
      if (!sub->get_group().empty()) all.push_back(sub->get_name());
    }
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional() && positional-- == 0) all = values_of(*command, *option);
    }
  }
  std::erase_if(all, [&](const std::string& word) { return !word.starts_with(last); });
  return all;
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") {
    return R"(# lockstep completion bash: `source <(lockstep completion bash)`, or keep it as
# ~/.local/share/bash-completion/completions/lockstep
_lockstep() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  read -ra words <<< "$line"
  [[ $line == *' ' ]] && words+=('')
  word=${words[-1]}
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("${word#"${words[-1]%"${COMP_WORDS[COMP_CWORD]}"}"}"); done \
    < <("${words[0]}" complete -- "${words[@]:1}" 2> /dev/null)
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _lockstep lockstep
)";
  }
  if (shell == "zsh") {
    return R"(#compdef lockstep
# lockstep completion zsh: `source <(lockstep completion zsh)` behind compinit, or keep it as
# _lockstep in a folder of $fpath
_lockstep() {
  local -a found
  found=("${(@f)$(${words[1]} complete -- "${(@)words[2,CURRENT]}" 2> /dev/null)}")
  found=(${found:#})
  if (( ${#found} )); then
    compadd -S '' -a -- found
  else
    _files
  fi
}
if [[ $funcstack[1] == _lockstep ]]; then _lockstep "$@"; else compdef _lockstep lockstep; fi
)";
  }
  return R"(# lockstep completion fish: `lockstep completion fish | source`, or keep it as
# ~/.config/fish/completions/lockstep.fish
function __lockstep
    set -l words (commandline -opc)
    $words[1] complete -- $words[2..-1] (commandline -ct) 2> /dev/null
end
complete -c lockstep -a '(__lockstep)'
)";
}

}  // namespace lockstep
