// [expect]: checks what a scenario itself states about its report.
#pragma once

#include <vector>

#include "core/analysis/report.hpp"
#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Returns one error (kind Expectation, at the scenario's line) for each value that is outside its
/// tolerance or that the report does not have. A key is a dotted path into report.json. For a list,
/// the path goes on with an index ("losses.0"; -1 is the last) or with `min`, `max` or `sum`
/// ("peak_memory_bytes.max").
///
/// Expectations of what only a real backend can measure (losses, grad_norms) are skipped where the
/// report has none. On a real backend, so is every other key that the report does not have.
std::vector<Error> check_expectations(const Report& report,
                                      const std::vector<Expectation>& expectations);

/// The number at such a path. Error InvalidSpec, with the nearest name, if the report has none.
Result<double> report_figure(const Report& report, const std::string& key);

}  // namespace lockstep
