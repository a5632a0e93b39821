#include "core/weights/adapters.hpp"

#include <string_view>
#include <utility>

#include "core/weights/merged_state.hpp"
#include "core/weights/weight_files.hpp"

namespace lockstep {

ModelSpec without_adapters(const ModelSpec& spec) {
  ModelSpec base = spec;
  base.lora = {};
  return base;
}

Error no_adapters(const HfTensor& tensor) {
  return {ErrorKind::Unsupported,
          "adapters of '" + tensor.name +
              "', whose rows are those of one head after the other, are not read or written: merge "
              "them into the weights first",
          std::nullopt};
}

Result<void> check_adapters(const StateReader& state, const ModelSpec& spec) {
  for (const Parameter& parameter : parameters_of(spec)) {
    if (!is_adapter(parameter)) continue;
    if (auto there = check_parameter(state, parameter); !there) return there;
  }
  return {};
}

Result<std::unique_ptr<StateReader>> merge_adapters(const StateReader& state,
                                                    const ModelSpec& spec) {
  if (auto known = check_adapters(state, spec); !known) return known.error();
  LowRankTerms terms;
  for (const Parameter& parameter : parameters_of(spec)) {
    const std::string_view name = parameter.name;
    if (!name.ends_with(kAdapterUp)) continue;
    const std::string weight(name.substr(0, name.size() - kAdapterUp.size()));
    terms[weight].push_back(
        {weight + std::string(kAdapterDown), parameter.name, 0, spec.lora.scale()});
  }
  return add_low_rank(state, state, std::move(terms));
}

}  // namespace lockstep
