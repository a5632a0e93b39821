#include "core/lower/lower.hpp"

#include <algorithm>

#include "core/ir/verify/verify.hpp"
#include "core/lower/capacity.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/model/frozen.hpp"

namespace lockstep {
namespace {

Error broken(std::string_view pass, const Error& fault) {
  Error error = fault;
  error.kind = ErrorKind::Internal;
  error.message = "pass '" + std::string(pass) + "' broke the rules: " + fault.message;
  return error;
}

bool synchronized(const Draft& draft) {
  return std::any_of(draft.roles.begin(), draft.roles.end(), [](const DraftRole& out) {
    return first_synchronization(out.role) < out.role.ops.next();
  });
}

/// Verifies the program as it would be if the later passes were left out, except those that order
/// streams and plan memory.
Result<void> verify_state(const Draft& draft, const LoweringPass& pass) {
  if (pass.verifiable == Verifiable::Nothing) return {};
  Draft whole = draft;
  if (pass.verifiable == Verifiable::WithoutUpdate) {
    for (DraftRole& out : whole.roles) {
      for (Unit& unit : out.role.units) {
        for (const StateRow& row : kStates) {
          if (row.keeper == Keeper::Optimizer) unit.states[row.kind] = {};
        }
        unit.factored = false;
      }
    }
  }
  // Without it, the weights of replicas that train apart would never be equal again.
  const bool apart = draft.scenario.strategy.trains_apart();
  if (apart && pass.verifiable == Verifiable::Whole && !synchronized(draft)) synchronize(whole);
  stream(whole.program, whole.roles);
  memory(whole.roles, whole.scenario.strategy);
  const std::vector<Error> faults = verify(whole.finished());
  if (faults.empty()) return {};
  return broken(pass.name, faults.front());
}

/// Runs all passes in the order of the table. If `each`, the program is verified after every pass;
/// otherwise it is not verified here.
Result<Program> run_passes(const Scenario& scenario, const PassObserver& after_pass, bool each,
                           Draft::Arithmetic arithmetic = Draft::Arithmetic::Count) {
  Draft draft(scenario, arithmetic);
  const std::vector<Error> frozen = faults_of_frozen(scenario.model, draft.model);
  if (!frozen.empty()) return frozen.front();
  for (const LoweringPass& pass : passes()) {
    const Result<void> done = pass.run(draft);
    if (after_pass) after_pass(pass.name, [&] { return pass.print(draft); });
    if (!done) return done.error();
    if (draft.fault()) return broken(pass.name, *draft.fault());
    if (!each) continue;
    if (const Result<void> sound = verify_state(draft, pass); !sound) return sound.error();
  }
  Program program = std::move(draft.program);
  for (DraftRole& out : draft.roles) {
    program.roles.push_back(std::move(out.role));
  }
  program.emitted = model_fingerprint(program);
  return program;
}

Result<Program> verified(Program program) {
  const std::vector<Error> faults = verify(program);
  if (!faults.empty()) {
    Error first = faults.front();
    first.kind = ErrorKind::Internal;
    first.message = "lowering broke its own rules: " + first.message;
    return first;
  }
  return program;
}

}  // namespace

const std::vector<std::string>& pass_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const LoweringPass& pass : passes()) all.emplace_back(pass.name);
    return all;
  }();
  return names;
}

Schedule lower_schedule(const Scenario& scenario) {
  Draft draft(scenario);
  const std::vector<StageLayers> stages = partition(draft.model, scenario.model, scenario.strategy);
  return pipeline(scenario, draft.model, stages);
}

Result<Program> lower(const Scenario& scenario, const PassObserver& after_pass) {
  Result<Program> program = run_passes(scenario, after_pass, false);
  return program ? verified(std::move(*program)) : std::move(program);
}

Result<Program> lower_unverified(const Scenario& scenario) {
  return run_passes(scenario, {}, false, Draft::Arithmetic::LeaveOut);
}

Result<Program> lower_verifying_passes(const Scenario& scenario) {
  return run_passes(scenario, {}, true);
}

Result<Program> lower_to_fit(const Scenario& scenario, MemoryFigures* most) {
  Result<Program> program = run_passes(scenario, {}, false);
  if (!program) return program;
  const Result<void> fits = check_capacity(*program, scenario.cluster, most);
  return fits ? verified(std::move(*program)) : Result<Program>(fits.error());
}

}  // namespace lockstep
