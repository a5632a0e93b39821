// Text of a fit: tables, JSON, and the comment at the head of a profile that was fitted.
#pragma once

#include <string>
#include <vector>

#include "core/fit/fit.hpp"
#include "core/format/table.hpp"

namespace lockstep {

/// Tables of the constants, of the errors before and after, and of every row if `with_rows`.
std::string fit_text(const Fit& fit, bool with_rows, const Screen& screen);
/// The same and all rows, with a final line end.
std::string fit_json(const Fit& fit, const std::vector<std::string>& remarks);
/// Lines that begin with '#': what was fitted to what, and how well; of the framework's constants
/// or of the others.
std::string fit_comment(const Fit& fit, bool of_framework);

}  // namespace lockstep
