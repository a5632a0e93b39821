// lockstep recommend: prints the rules of thumb, each with its name, and beside them what the
// simulator says.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "backends/simulated_step.hpp"
#include "cli/commands.hpp"
#include "cli/recommend_simulation.hpp"
#include "core/base/nearest.hpp"
#include "core/format/format.hpp"
#include "core/plan/rules_of_thumb.hpp"

namespace lockstep {
namespace {

/// Parses a count of parameters: "125M", "7B", "1.3e9".
std::optional<double> parse_count(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string suffix(end);
  double factor = 1;
  if (suffix == "K" || suffix == "k") {
    factor = 1e3;
  } else if (suffix == "M" || suffix == "m") {
    factor = 1e6;
  } else if (suffix == "B" || suffix == "b") {
    factor = 1e9;
  } else if (suffix == "T" || suffix == "t") {
    factor = 1e12;
  } else if (!suffix.empty()) {
    return std::nullopt;
  }
  if (end == text.c_str() || !(value * factor >= 1) || !(value * factor < 1e18))
    return std::nullopt;
  return value * factor;
}

std::string simulated_text(const RuleQuestion& question) {
  if (question.gpus > kMostSimulatedGpus) {
    return fmt::format("Not simulated: that is done for up to {} GPUs.\n", kMostSimulatedGpus);
  }
  const std::vector<SimulatedChoice> choices = simulate_choices(question);
  TextTable table({"  simulated", "tokens/s", "MFU", "exposed comm", "memory per GPU"});
  for (const SimulatedChoice& choice : choices) {
    if (!choice.report) {
      table.add({"  " + choice.strategy, choice.failure, "-", "-", "-"});
      continue;
    }
    const Report& r = *choice.report;
    table.add({"  " + choice.strategy, count_text(r.tokens_per_s), percent_text(r.mfu),
               percent_text(r.exposed_comm.v / r.step_time.v),
               fmt::format("{:.1f} GB", static_cast<double>(fullest_rank(r).v) / 1e9)});
  }
  const SimulatedChoice* best = fastest(choices);
  return fmt::format("{:<20}{}\n{:<20}{}\n\n", "simulated answer",
                     best == nullptr ? "nothing fits" : best->strategy, "",
                     "the fastest that fits: a decoder of this size on A100s, in bfloat16 with "
                     "float32 masters, 8 "
                     "sequences of 2048 tokens per GPU") +
         table.text();
}

}  // namespace

int recommend_command(const RecommendArguments& arguments, const Console& console) {
  const auto invalid = [&](const std::string& message) {
    return report_error(console, {ErrorKind::InvalidSpec, message, std::nullopt});
  };
  RuleQuestion question;
  const std::optional<double> parameters = parse_count(arguments.params);
  if (!parameters) {
    return invalid("--params '" + arguments.params +
                   "' is not a count of parameters: write 125M, 7B or 1.3e9");
  }
  question.parameters = *parameters;
  question.gpu_memory_gb = arguments.gpu_mem;
  question.gpus = arguments.gpus;
  static const std::vector<std::string> interconnects = {"nvlink", "infiniband", "pcie"};
  const auto found = std::find(interconnects.begin(), interconnects.end(), arguments.interconnect);
  if (found == interconnects.end()) {
    const std::string near = nearest(arguments.interconnect, interconnects);
    return invalid(
        "--interconnect '" + arguments.interconnect + "' is not known" +
        (near.empty() ? ": nvlink, infiniband or pcie" : "; did you mean '" + near + "'?"));
  }
  question.interconnect = static_cast<Interconnect>(found - interconnects.begin());
  console.out << fmt::format("{:.4g} B parameters on {} x {:.4g} GB, {}\n\n",
                             question.parameters / 1e9, question.gpus, question.gpu_memory_gb,
                             arguments.interconnect);
  for (const RuleAnswer& answer : rules_of_thumb(question)) {
    console.out << fmt::format("{:<20}{}\n{:<20}{}\n", answer.rule,
                               answer.strategy.empty() ? "no answer" : answer.strategy, "",
                               answer.because);
  }
  console.out << "\nRules of thumb count 12 bytes per parameter and no activations.\n\n"
              << simulated_text(question);
  return 0;
}

}  // namespace lockstep
