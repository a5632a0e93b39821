#include "core/ir/training_state.hpp"

#include <charconv>

namespace lockstep {
namespace {

constexpr const char* kLossScale = "loss_scale";
constexpr const char* kStepsApart = "steps_apart";

}  // namespace

std::map<std::string, std::string> notes_of(const std::optional<LossScale>& scale,
                                            int steps_apart) {
  std::map<std::string, std::string> notes;
  if (scale) notes[kLossScale] = to_string(*scale);
  if (steps_apart > 0) notes[kStepsApart] = std::to_string(steps_apart);
  return notes;
}

Result<int> steps_apart_of(const StateHead& head) {
  const auto note = head.notes.find(kStepsApart);
  if (note == head.notes.end()) return 0;
  const std::string& text = note->second;
  int count = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (fault == std::errc() && end == text.data() + text.size() && count >= 0) return count;
  return Error{ErrorKind::Parse,
               "the checkpoint's steps_apart \"" + text + "\" is not a count of steps",
               std::nullopt};
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
