// Describe: what spans and bubbles are, in words, for tooltips, the details panel and screen
// readers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// Pairs of a name and a value: "Duration", "12.5 ms".
using Facts = std::vector<std::pair<std::string, std::string>>;

/// `group_size` is how many ranks the span's collective has, if the trace's file says so; 0: those
/// that the trace has count. The bus bandwidth is that of nccl-tests: a collective's size over its
/// time, times the factor by which the links carry more or less than the size.
Facts facts_of(const RunView& run, SpanId span, int group_size = 0);
Facts facts_of(const RunView& run, const StepAnalysis& step, const Bubble& bubble);

/// The bubble of `rank` at `time`, and its step; both are null if the rank computes then, or no
/// step runs.
std::pair<const StepAnalysis*, const Bubble*> bubble_at(const RunView& run, Rank rank,
                                                        SimTime time);

/// One line: "F3 · forward of microbatch 3, stage 1 · 10 ms".
std::string summary(const RunView& run, SpanId span);
std::string summary(const StepAnalysis& step, const Bubble& bubble);

std::string text_of(SimTime time);  // "12.5 ms"
/// The facts as lines "name: value".
std::string text_of(const Facts& facts);

/// What a run that does not fit needs and has, in a sentence; empty if it fits.
std::string shortage(const RunView& run);

}  // namespace lockstep::gui
