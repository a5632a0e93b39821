#include "lockstep/search.hpp"

#include <chrono>

#include "core/advice/recommend.hpp"
#include "core/advice/space_json.hpp"
#include "core/base/thread_team.hpp"
#include "core/session/simulation.hpp"
#include "lockstep/data.hpp"

namespace lockstep::api {
inline namespace v1 {

namespace {

lockstep::Result<SpaceResult> space_of(const Scenario& scenario, const SearchOptions& options) {
  SpaceOptions space;
  for (const std::string& text : options.only) {
    const lockstep::Result<LayoutConstraints::Only> only = parse_only(text);
    if (!only) return only.error();
    space.constraints.only.push_back(*only);
  }
  space.finalists = options.finalists;
  space.threads = threads_or_cores(options.threads);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  space.stop = [end] { return Clock::now() > end; };
  return search_space(scenario.data().scenario, simulated_layout, simulated_probe, space);
}

}  // namespace

Result<std::vector<Layout>> search(const Scenario& scenario, const SearchOptions& options) {
  const lockstep::Result<SpaceResult> result = space_of(scenario, options);
  if (!result) return faults_of(result.error());
  std::vector<Layout> layouts;
  for (const FoundLayout& found : result->found) {
    const LayoutFigures& f = found.figures;
    layouts.push_back(
        {layout_name(found.scenario),
         Scenario(std::make_shared<const Scenario::Data>(Scenario::Data{found.scenario, "", {}})),
         f.step_time.v, f.throughput, f.mfu, f.bubble_fraction, f.memory.needed.v});
  }
  return layouts;
}

Result<std::string> search_json(const Scenario& scenario, const SearchOptions& options) {
  const lockstep::Result<SpaceResult> result = space_of(scenario, options);
  if (!result) return faults_of(result.error());
  return space_json(*result, trained_on(scenario.data().scenario)).dump();
}

}  // namespace v1
}  // namespace lockstep::api
