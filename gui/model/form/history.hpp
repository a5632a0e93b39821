// History: undo and redo of a value.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::gui {

/// The states that the user went through. Successive changes with the same non-empty `merge` name
/// become one step, such as the drag of a slider, or a word that is typed.
template <class T>
class History {
 public:
  explicit History(T initial = {}) : states_{std::move(initial)} {}
  const T& now() const { return states_[at_]; }
  bool can_undo() const { return at_ > 0; }
  bool can_redo() const { return at_ + 1 < states_.size(); }

  /// Changes the value, and forgets what was undone. Returns whether anything changed. Without a
  /// name it ends the step before, even if nothing changed.
  bool change(T value, const std::string& merge = {}) {
    if (value == now()) {
      if (merge.empty()) merge_.clear();
      return false;
    }
    states_.resize(at_ + 1);
    if (!merge.empty() && merge == merge_ && at_ > 0) {
      states_[at_] = std::move(value);
    } else {
      states_.push_back(std::move(value));
      ++at_;
    }
    merge_ = merge;
    return true;
  }
  void undo() {
    if (can_undo()) --at_;
    merge_.clear();
  }
  void redo() {
    if (can_redo()) ++at_;
    merge_.clear();
  }

 private:
  std::vector<T> states_;
  std::size_t at_ = 0;
  std::string merge_;
};

}  // namespace lockstep::gui
