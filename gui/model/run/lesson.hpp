// Lesson: what a step is meant to show, in words for before and after it is played.
#pragma once

#include <string>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// Sums up a step that was played: how long it took, how much of it ranks were idle and why, with
/// the largest cause first; for a pipeline that fills and drains long, also what would shorten
/// that.
std::string closing_words(const StepAnalysis& step);

}  // namespace lockstep::gui
