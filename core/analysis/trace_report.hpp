// What a report says of the spans of a trace, whether their program is known or not.
#pragma once

#include <vector>

#include "core/analysis/report.hpp"
#include "core/analysis/step_shares.hpp"

namespace lockstep {

/// Fills in all of `report` that follows from spans alone, except its step_time. `program` and
/// `kept` are those of analyze_steps(), whose result it returns without the causes.
AnalyzedSteps report_spans(Report& report, const Trace& trace, const Program* program,
                           const StepShares& shares, std::vector<StepAnalysis>* kept);

/// Whether any rank computed, or waited for a transfer. Of a trace of hosts or of memory alone, it
/// is not known how much of the step was a bubble or exposed communication: not 100 %, nor 0.
bool tells_device_work(const Report& report);

}  // namespace lockstep
