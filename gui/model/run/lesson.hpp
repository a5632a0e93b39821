// Lesson: what a step is to show, in words: before it is played and after it.
#pragma once

#include <string>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// The comment at the head of a scenario's text, as one paragraph; empty: there is none.
std::string opening_words(const std::string& scenario);

/// What a played step adds up to: how long it took, how much of it ranks stood still and why, the
/// largest cause first; of a pipeline that fills and drains long, what makes that less.
std::string closing_words(const StepView& step);

}  // namespace lockstep::gui
