// Lockstep as a library: load a scenario, lower it to a program, verify, simulate and train it,
// search for better layouts. docs/library.md is its page; examples/library is a program of its own.
#pragma once

#include "lockstep/export.hpp"
#include "lockstep/program.hpp"
#include "lockstep/questions.hpp"
#include "lockstep/result.hpp"
#include "lockstep/run.hpp"
#include "lockstep/scenario.hpp"
#include "lockstep/search.hpp"
#include "lockstep/training.hpp"

namespace lockstep::api {
inline namespace v1 {

/// Of the library that is linked: "0.1.0".
LOCKSTEP_EXPORT std::string version();

}  // namespace v1
}  // namespace lockstep::api
