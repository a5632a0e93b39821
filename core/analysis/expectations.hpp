// [expect]: a scenario's own statements about its report, checked.
#pragma once

#include <vector>

#include "core/analysis/report.hpp"
#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// One error (Expectation, at the scenario's line) for each value that is outside its tolerance or
/// that the report does not have. A key is a dotted path into report.json; a list takes an index
/// ("losses.0"; -1 is the last) or `min`, `max`, `sum` ("peak_memory_bytes.max").
///
/// What only a real backend can measure (losses, grad_norms) is passed over where the report has
/// none; on a real backend, so is every other key that the report does not have.
std::vector<Error> check_expectations(const Report& report,
                                      const std::vector<Expectation>& expectations);

}  // namespace lockstep
