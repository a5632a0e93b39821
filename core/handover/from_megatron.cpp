#include <algorithm>

#include "core/handover/launch.hpp"
#include "core/handover/megatron_reader.hpp"

namespace lockstep {

Result<PlanImport> MegatronReader::read(const std::string& file) {
  if (auto unknown = unknown_decision(file)) return *unknown;
  if (Result<void> model = read_model(file); !model) return model.error();
  if (Result<void> degrees = read_degrees(file); !degrees) return degrees.error();
  read_training();
  if (!refused_.empty()) {
    Error error = invalid(refused_);
    error.where = SourceSpan{file, std::max(1, launch_.program.line), 1};
    return error;
  }
  read_optimizer();
  read_recomputation();
  read_kernels();
  account_for_rest();
  for (const std::string& option : launch_.of_others) plan_.belongs_to_others(option);
  for (const std::string& sentence : launch_.assumed) plan_.assume(sentence);
  for (const std::string& name : launch_.harmless) {
    if (!given(name)) plan_.ignore(name);
  }
  for (const char* name : {"tokenizer-model", "wandb-exp-name", "save", "load"}) {
    if (given(name)) plan_.name(words(name).substr(words(name).rfind('/') + 1));
  }
  plan_.part(shown_arguments());
  return plan_.finish(file);
}

Result<PlanImport> from_megatron(std::string_view text, const std::string& file,
                                 const PlanOptions& options) {
  Launch launch;
  if (is_list_of_arguments(text)) {
    launch.arguments = megatron_arguments(text);
    for (MegatronArgument& argument : launch.arguments) {
      if (argument.value.find('$') == std::string::npos) continue;
      argument.unknown = "give --arg " + argument.name + "=VALUE";
    }
    for (const auto& [name, value] : options.arguments) launch.unused.push_back(name);
  } else {
    Result<Launch> found = launch_of(text, file, options.arguments);
    if (!found) return found.error();
    launch = std::move(*found);
  }
  if (launch.arguments.empty()) {
    return Error{
        ErrorKind::Parse,
        "no command with arguments of Megatron-LM (--num-layers 32 ...) is here, and no "
        "variable that has some: give the script that starts the training, or its arguments "
        "alone",
        SourceSpan{file, 1, 1}};
  }
  // What names no variable of the script is an argument of the trainer.
  for (const std::string& name : launch.unused) {
    std::string argument = name;
    std::replace(argument.begin(), argument.end(), '_', '-');
    const auto stands = std::find_if(launch.arguments.begin(), launch.arguments.end(),
                                     [&](const auto& a) { return a.name == argument; });
    if (stands != launch.arguments.end()) {
      stands->value = options.arguments.at(name);
      stands->unknown.clear();
    } else {
      launch.arguments.push_back({argument, options.arguments.at(name), 1});
    }
  }
  return MegatronReader(std::move(launch), options).read(file);
}

}  // namespace lockstep
