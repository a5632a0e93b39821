#include "core/spec/activation_checkpoint.hpp"

#include <charconv>

namespace lockstep {

const std::vector<std::string>& selective_options() {
  static const std::vector<std::string> names = {"op", "norm", "activation", "attention"};
  return names;
}

std::optional<Recompute> ActivationCheckpointSpec::of_block(std::int64_t block) const {
  Recompute what;
  if (mode == ActivationCheckpoint::None) return what;
  if (mode == ActivationCheckpoint::Full) {
    what.everything = true;
    return what;
  }
  const std::string& option = selective_ac_option;
  if (option == "op" || option == "norm") what.norms = true;
  if (option == "op" || option == "activation") what.activations = true;
  if (option == "attention") what.attention = true;
  if (what.any()) return what;
  std::int64_t every = 0;
  const auto [end, fault] = std::from_chars(option.data(), option.data() + option.size(), every);
  if (fault != std::errc() || end != option.data() + option.size() || every < 1) {
    return std::nullopt;
  }
  what.everything = (block + 1) % every == 0;
  return what;
}

}  // namespace lockstep
