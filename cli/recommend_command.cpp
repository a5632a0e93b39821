// lockstep recommend: the fastest layout of a model on a cluster, and what the rules of thumb say.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/advice/advice_json.hpp"
#include "core/cluster/certainty.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

std::string figures_text(const FoundLayout& found, const std::string& unit) {
  const LayoutFigures& f = found.figures;
  std::string likely;
  if (const auto certainty = certainty_of(found.scenario.cluster)) {
    const LikelyFactors& factors = certainty->step_time;
    likely = " (" + likely_text(f.step_time, factors.least, factors.most) + ")";
  }
  return fmt::format("{} {}/s, MFU {}, {} a step{}, {} of memory", count_text(f.throughput), unit,
                     percent_text(f.mfu), time_text(f.step_time), likely,
                     bytes_text(f.memory.needed));
}

std::string text_of(const Advice& advice, const Screen& screen) {
  const RuleQuestion& q = advice.asked.question;
  const Scenario& scenario = advice.asked.scenario;
  const std::string unit = trained_on(scenario);
  std::string text = wrapped(
      fmt::format("{:.4g} B parameters on {} x {:.4g} GB: {}, in {} with masters in float32\n\n",
                  q.parameters / 1e9, q.gpus, q.gpu_memory_gb, search_task(scenario),
                  to_string(scenario.training.param_dtype())),
      screen, 2);
  const auto line = [&](const std::string& name, const std::string& words) {
    text += wrapped(fmt::format("{:<20}{}\n", name, words), screen, 20);
  };
  const BestLayout& best = advice.best;
  line("simulated answer", best.found ? layout_name(best.found->scenario) : "nothing fits");
  line("", best.found ? figures_text(*best.found, unit) : best.failure->message);
  for (const WayToFit& way : advice.ways) {
    line(&way == &advice.ways.front() ? "what would fit" : "", way.words + " (" + way.option + ")");
    line("", layout_name(way.found.scenario) + ": " + figures_text(way.found, unit));
  }
  text += "\n";
  for (const RuleAdvice& r : advice.rules) {
    line(r.rule.rule, r.rule.strategy.empty() ? "no answer" : r.rule.strategy);
    line("", r.rule.because);
    if (r.rule.strategy.empty()) continue;
    if (!r.best.found) {
      line("", "does not fit: " + r.best.failure->message);
      continue;
    }
    line("", "at best " + layout_name(r.best.found->scenario));
    std::string words = figures_text(*r.best.found, unit);
    if (r.slower > 0) words += fmt::format("; {} slower", percent_text(r.slower));
    if (!r.why.empty()) words += " (" + r.why + ")";
    line("", r.slower > 0 ? words : "which is the simulated answer");
  }
  text += wrapped(
      fmt::format("\nAnswers leave {} of memory free, which runs may take more than is simulated "
                  "(docs/validation.md).\n"
                  "Rules of thumb count 12 bytes per parameter and no activations.\n",
                  percent_text(1 - 1 / (1 + kMeasuredMemoryOver))),
      screen, 2);
  if (advice.stopped) text += "Not every layout was looked at (--seconds).\n";
  return text;
}

}  // namespace

int recommend_command(const RecommendArguments& arguments, const Console& console) {
  const Result<Advice> advice = recommend(arguments, simulated_layout, simulated_probe,
                                          {arguments.seconds, arguments.threads, [&console] {
                                             return console.cancel != nullptr && *console.cancel;
                                           }});
  if (!advice) return report_error(console, advice.error());
  report_warnings(console, advice->asked.warnings);
  console.out << (arguments.json ? json_text(advice_json(*advice))
                                 : text_of(*advice, console.screen()));
  return 0;
}

}  // namespace lockstep
