#include "core/handover/megatron_reader.hpp"

namespace lockstep {

Result<PlanImport> MegatronReader::read(const std::string& file) {
  if (Result<void> model = read_model(file); !model) return model.error();
  read_degrees();
  read_training();
  read_optimizer();
  read_recomputation();
  account_for_rest();
  return plan_.finish(file);
}

Result<PlanImport> from_megatron(std::string_view text, const std::string& file,
                                 const PlanOptions& options) {
  const std::vector<MegatronArgument> arguments = megatron_arguments(text);
  if (arguments.empty()) {
    return Error{ErrorKind::Parse, "there is no --argument here", SourceSpan{file, 1, 1}};
  }
  return MegatronReader(arguments, megatron_program(text), options).read(file);
}

}  // namespace lockstep
