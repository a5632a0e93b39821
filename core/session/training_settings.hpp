// Training settings: with which a state came about, and whether a run may go on with it.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Every "section.key" of a scenario's resolved text, with its value as text.
Settings keys_of(const std::string& scenario);

/// The settings that decide what is trained, and not on how many ranks: model, training, optimizer
/// and learning rate, and the data by their digest. `scenario` is empty if a program's text is run,
/// which then says what it knows.
Settings training_settings(const Program& program, const std::string& scenario,
                           const std::string& data_digest);

/// Error InvalidSpec with every setting in which a run differs from the one whose checkpoint it
/// goes on with, unless it was accepted by its name; and for a name that is none. Settings that one
/// of them lacks are not compared.
Result<void> check_settings(const Settings& saved, const Settings& own,
                            const std::vector<std::string>& accepted);

}  // namespace lockstep
