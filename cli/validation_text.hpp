// Validation text: validations as tables, for a terminal and for docs/validation.md.
#pragma once

#include <string>
#include <vector>

#include "core/format/table.hpp"
#include "core/validation/collectives.hpp"
#include "core/validation/training_validation.hpp"

namespace lockstep {

std::string validation_text(const ValidationSummary& summary, const std::vector<ValidatedRow>& rows,
                            bool with_rows, const Screen& screen);
std::string validation_markdown(const ValidationSummary& summary);

std::string collectives_text(const std::vector<ValidatedCollective>& rows, bool with_rows,
                             const Screen& screen);
std::string collectives_markdown(const std::vector<ValidatedCollective>& rows);

/// The sentence that the README quotes: "343 of 475 published step times: half of them within 12.0
/// %, nine in ten within 35 %, …".
std::string validation_claim(const ValidationFigures& all);

}  // namespace lockstep
