#include "lockstep/scenario.hpp"

#include "backends/version.hpp"
#include "core/scenario/scenario_file.hpp"
#include "lockstep/data.hpp"

namespace lockstep::api {
inline namespace v1 {
namespace {

Result<std::vector<Scenario>> scenarios_of(const LoadedScenario& loaded) {
  if (!loaded.ok()) return faults_of(loaded.errors);
  std::vector<std::string> warnings;
  for (const Error& warning : loaded.warnings) warnings.push_back(lockstep::to_string(warning));
  std::vector<Scenario> scenarios;
  for (const SweepPoint& point : loaded.points) {
    scenarios.emplace_back(std::make_shared<const Scenario::Data>(
        Scenario::Data{point.scenario, point.label, warnings}));
  }
  return scenarios;
}

Result<Scenario> only_one(const Result<std::vector<Scenario>>& scenarios) {
  if (!scenarios) return scenarios.faults();
  if (scenarios->size() == 1) return scenarios->front();
  return faults_of(invalid("this is a sweep of " + std::to_string(scenarios->size()) +
                           " scenarios: load_sweep() reads all of them"));
}

}  // namespace

std::vector<Fault> faults_of(const Error& error) {
  Fault fault{static_cast<FaultKind>(error.kind), error.message, "", 0, 0};
  if (error.where) {
    fault.file = error.where->file;
    fault.line = error.where->line;
    fault.column = error.where->column;
  }
  return {fault};
}

std::vector<Fault> faults_of(const std::vector<Error>& errors) {
  std::vector<Fault> faults;
  for (const Error& error : errors) faults.push_back(faults_of(error).front());
  return faults;
}

std::string to_string(const Fault& fault) {
  Error error{static_cast<ErrorKind>(fault.kind), fault.message, std::nullopt};
  if (fault.kind == FaultKind::Internal) return "internal error: " + fault.message;
  if (!fault.file.empty()) error.where = SourceSpan{fault.file, fault.line, fault.column};
  return lockstep::to_string(error);
}

std::string to_string(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) text += (text.empty() ? "" : "\n") + to_string(fault);
  return text;
}

std::string version() { return kBuildFacts.version; }

Result<std::vector<Scenario>> Scenario::load_sweep(const std::string& path,
                                                   const std::vector<std::string>& set) {
  return scenarios_of(load_scenario(path, set, kSettings));
}

Result<Scenario> Scenario::load(const std::string& path, const std::vector<std::string>& set) {
  return only_one(load_sweep(path, set));
}

Result<Scenario> Scenario::parse(const std::string& text, const std::vector<std::string>& set,
                                 const std::string& file) {
  return only_one(parse_sweep(text, set, file));
}

Result<std::vector<Scenario>> Scenario::parse_sweep(const std::string& text,
                                                    const std::vector<std::string>& set,
                                                    const std::string& file) {
  return scenarios_of(parse_scenario(text, file, set, kSettings));
}

std::string Scenario::label() const { return data_->label; }
std::string Scenario::text() const { return print_scenario(data_->scenario); }
int Scenario::ranks() const { return data_->scenario.strategy.world_size(); }
const std::vector<std::string>& Scenario::warnings() const { return data_->warnings; }

}  // namespace v1
}  // namespace lockstep::api
