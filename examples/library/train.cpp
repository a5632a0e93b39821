// Trains a scenario up to a step, from the newest checkpoint in the folder if there is one.
#include <cstdio>
#include <cstdlib>
#include <lockstep/lockstep.hpp>

namespace api = lockstep::api;

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: train SCENARIO FOLDER STEPS\n");
    return 2;
  }
  const auto scenario = api::Scenario::load(argv[1], {"checkpoint.interval=2"});
  if (!scenario) {
    std::fprintf(stderr, "%s\n", api::to_string(scenario.faults()).c_str());
    return 2;
  }
  api::TrainingOptions options;
  options.folder = argv[2];
  options.resume = "auto";
  options.steps = std::atoi(argv[3]);
  options.on_step = [](const api::TrainingStep& step) {
    std::printf("step %d of %d: loss %.17g\n", step.step, step.last, step.loss);
    return true;
  };
  const auto training = api::train(*scenario, options);
  if (!training) {
    std::fprintf(stderr, "%s\n", api::to_string(training.faults()).c_str());
    return 3;
  }
  return training->end == api::TrainingEnd::Done ? 0 : 1;
}
