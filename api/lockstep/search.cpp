#include "lockstep/search.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/simulated_step.hpp"
#include "core/plan/best_first.hpp"
#include "lockstep/data.hpp"

namespace lockstep::api {
inline namespace v1 {

Result<std::vector<Layout>> search(const Scenario& scenario, const SearchOptions& options) {
  SpaceOptions space;
  for (const std::string& text : options.only) {
    const lockstep::Result<LayoutConstraints::Only> only = parse_only(text);
    if (!only) return faults_of(only.error());
    space.constraints.only.push_back(*only);
  }
  space.finalists = options.finalists;
  space.threads = options.threads > 0
                      ? options.threads
                      : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  space.stop = [end] { return Clock::now() > end; };
  const lockstep::Result<SpaceResult> result =
      search_space(scenario.data().scenario, simulated_layout, simulated_probe, space);
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

}  // namespace v1
}  // namespace lockstep::api
