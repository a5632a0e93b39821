// Causes text: what the time of a step is spent on and why, as tables.
#pragma once

#include <string>

#include "core/analysis/report.hpp"
#include "core/format/table.hpp"

namespace lockstep {

/// Idle time by cause, the critical path, and stragglers where somebody waits for them. Empty for a
/// report without spans.
std::string causes_text(const Report& report, const Screen& screen);

}  // namespace lockstep
