// What half the bandwidth of every link costs: simulates a scenario twice and says where the time
// of the slower step goes.
#include <cstdio>
#include <lockstep/lockstep.hpp>

namespace api = lockstep::api;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: half_network SCENARIO\n");
    return 2;
  }
  double first = 0;
  for (const char* factor : {"1.0", "0.5"}) {
    const auto scenario =
        api::Scenario::load(argv[1], {std::string("what_if.bandwidth_factor=") + factor});
    if (!scenario) {
      std::fprintf(stderr, "%s\n", api::to_string(scenario.faults()).c_str());
      return 2;
    }
    const auto run = api::simulate(*scenario);
    if (!run) {
      std::fprintf(stderr, "%s\n", api::to_string(run.faults()).c_str());
      return 3;
    }
    const api::Figures figures = run->figures();
    if (first == 0) first = figures.step_time_s;
    std::printf("bandwidth x %s: step %.6g s (%.3f times), exposed communication %.6g s\n", factor,
                figures.step_time_s, figures.step_time_s / first, figures.exposed_comm_s);
  }
  return 0;
}
