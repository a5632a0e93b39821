// Searches of a part of a space beside the search of the whole one.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

#include "core/plan/best_first.hpp"
#include "core/session/simulation.hpp"
#include "tests/core/plan/techniques.hpp"

using namespace lockstep;

namespace {

std::set<LayoutConstraints::Only> restrictions_of(const Scenario& task) {
  std::set<LayoutConstraints::Only> all;
  for (const LayoutPoint& point : layout_space(task, {})) {
    for (const LayoutConstraints::Only& only : degrees_of(point)) all.insert(only);
  }
  return all;
}

/// A small task, with techniques or without; nothing if they do not go with it.
std::optional<Scenario> random_task(unsigned seed) {
  std::mt19937 random(seed);
  const bool few_devices = random() % 2 == 0;
  const std::string text = test::small_task_text(random, few_devices);
  if (random() % 2 == 0) return parse_scenario(text, "task", {}).points.front().scenario;
  std::string names;
  return test::with_techniques(text, random, names);
}

/// The restrictions with which a search finds a faster layout than without.
std::vector<std::string> better_if_restricted(const Scenario& task) {
  std::vector<std::string> better;
  SpaceOptions options;
  const auto whole = search_space(task, simulated_layout, simulated_probe, options);
  for (const LayoutConstraints::Only& only : restrictions_of(task)) {
    options.constraints.only = {only};
    const auto part = search_space(task, simulated_layout, simulated_probe, options);
    if (!part) continue;
    const FoundLayout& found = part->found.front();
    if (whole && found.figures.step_time >= whole->found.front().figures.step_time) continue;
    std::string text = only.what + "=" + std::to_string(only.value) + " finds " +
                       layout_name(found.scenario) + ", " +
                       std::to_string(found.figures.step_time.v) + " s";
    if (whole) {
      text += ", and without " + layout_name(whole->found.front().scenario) + ", " +
              std::to_string(whole->found.front().figures.step_time.v) + " s";
    } else {
      text += ", and without: " + whole.error().message;
    }
    better.push_back(text);
  }
  return better;
}

}  // namespace

TEST_CASE("a search finds no slower layout than it finds of those of one degree alone",
          "[core][plan]") {
  // With each of these, settings decide, of layouts that are not the best without them.
  for (const unsigned seed : {5U, 111U, 146U, 184U, 199U, 201U}) {
    INFO("seed " << seed);
    const std::optional<Scenario> task = random_task(seed);
    REQUIRE(task);
    for (const std::string& text : better_if_restricted(*task)) FAIL_CHECK(text);
  }
}

// LOCKSTEP_TASKS=200 LOCKSTEP_SEED=100 test_core_plan "[.restricted]" prints where it does.
TEST_CASE("searches of random tasks, whole and of one degree", "[.restricted]") {
  const auto number = [](const char* name, unsigned otherwise) {
    const char* value = std::getenv(name);
    return value ? static_cast<unsigned>(std::atoi(value)) : otherwise;
  };
  const unsigned seed = number("LOCKSTEP_SEED", 1), tasks = number("LOCKSTEP_TASKS", 20);
  unsigned searched = 0, faulty = 0;
  for (unsigned i = seed; i < seed + tasks; ++i) {
    const std::optional<Scenario> task = random_task(i);
    if (!task) continue;
    ++searched;
    const std::vector<std::string> better = better_if_restricted(*task);
    faulty += !better.empty();
    for (const std::string& text : better) {
      std::cout << "seed " << i << ", " << search_task(*task) << ": " << text << std::endl;
    }
  }
  std::cout << searched << " tasks, of which " << faulty << " are better restricted\n";
}
