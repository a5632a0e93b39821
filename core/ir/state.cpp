#include "core/ir/state.hpp"

namespace lockstep {
namespace {

constexpr const char* kLossScale = "loss_scale";

}  // namespace

std::map<std::string, std::string> notes_of(const std::optional<LossScale>& scale) {
  if (!scale) return {};
  return {{kLossScale, to_string(*scale)}};
}

Result<std::optional<LossScale>> loss_scale_of(const StateHead& head) {
  const auto note = head.notes.find(kLossScale);
  if (note == head.notes.end()) return std::optional<LossScale>();
  const auto scale = parse_loss_scale(note->second);
  if (scale) return scale;
  return Error{
      ErrorKind::Parse,
      "the checkpoint's loss_scale \"" + note->second + "\" is not a scale and three counts",
      std::nullopt};
}

}  // namespace lockstep
