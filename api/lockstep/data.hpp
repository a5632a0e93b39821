// Data: what stands behind the handles of the public headers. Internal to api/lockstep; it is not
// installed.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/spec/scenario.hpp"
#include "lockstep/lockstep.hpp"

namespace lockstep::api {
inline namespace v1 {

/// What gives the overrides, as their faults name it: settings, sections and `set` of the calls.
inline constexpr const char* kSettings = "settings";

struct Scenario::Data {
  lockstep::Scenario scenario;
  std::string label;
  std::vector<std::string> warnings;
};

struct Program::Data {
  lockstep::Program program;
};

struct Run::Data {
  lockstep::Run run;
};

/// The handle of a run.
Run run_of(lockstep::Run run);

std::vector<Fault> faults_of(const std::vector<Error>& errors);
std::vector<Fault> faults_of(const Error& error);

}  // namespace v1
}  // namespace lockstep::api
