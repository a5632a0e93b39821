// What things are, in words: tooltips, the details panel, screen readers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// Name and value: "Duration", "12.5 ms".
using Facts = std::vector<std::pair<std::string, std::string>>;

Facts facts_of(const RunView& run, SpanId span);
Facts facts_of(const RunView& run, const StepView& step, const Bubble& bubble);

/// The bubble of `rank` at `time` and its step; null: it computes then, or no step runs.
std::pair<const StepView*, const Bubble*> bubble_at(const RunView& run, Rank rank, SimTime time);

/// One line: "F3 · forward of microbatch 3, stage 1 · 10 ms".
std::string summary(const RunView& run, SpanId span);
std::string summary(const StepView& step, const Bubble& bubble);

std::string text_of(SimTime time);  // "12.5 ms"
/// Lines "name: value".
std::string text_of(const Facts& facts);

}  // namespace lockstep::gui
