// lockstep compare: tells in what two runs differ.
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/backends.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/open_run.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/compare.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

/// A run, or the faults that kept it from being there.
struct Side {
  std::optional<Run> run;
  std::vector<Error> errors;
};

Side failed_side(Error error) { return {std::nullopt, {std::move(error)}}; }

/// Simulates a step of a scenario, whether it fits its devices or not.
Side simulate_side(const std::string& path, const Console& console) {
  LoadedScenario loaded = load_scenario(path, {});
  if (!loaded.ok()) return {std::nullopt, std::move(loaded.errors)};
  const Scenario& scenario = loaded.points.front().scenario;
  Result<Program> program = lower(scenario);
  if (!program) return failed_side(program.error());
  BackendOptions options;
  options.what_if = scenario.what_if;
  Result<std::unique_ptr<Backend>> backend = make_backend("sim", options);
  if (!backend) return failed_side(backend.error());
  RunOptions run_options;
  run_options.cancel = console.cancel;
  Result<RunResult> ran = (*backend)->run(*program, scenario.cluster, run_options);
  if (!ran) return failed_side(ran.error());
  Report report = analyze(ran->trace, *program, scenario.cluster);
  return {Run{std::move(report), std::move(ran->trace), {}, {}, {}}, {}};
}

Side open_side(const std::string& path, const Console& console) {
  if (path.ends_with(".toml")) return simulate_side(path, console);
  Result<Run> run = open_run(path, console);
  if (!run) return failed_side(run.error());
  return {std::move(*run), {}};
}

using Json = nlohmann::ordered_json;

/// Times of the same name in both runs.
template <class Differences, class Name>
Json times_json(const Differences& differences, Name name) {
  Json list = Json::array();
  for (const auto& d : differences) {
    list.push_back({{"name", name(d)},
                    {"a_s", d.a.time.v},
                    {"b_s", d.b.time.v},
                    {"a_count", d.a.count},
                    {"b_count", d.b.count}});
  }
  return list;
}

Json comparison_json(const Report& a, const Report& b, const Comparison& c) {
  Json memory = Json::array();
  for (const MemoryDifference& d : c.memory) {
    memory.push_back({{"kind", d.kind}, {"a_bytes", d.a.v}, {"b_bytes", d.b.v}});
  }
  return {{"a", Json::parse(report_json(a))},
          {"b", Json::parse(report_json(b))},
          {"same_program", c.same_program},
          {"same_order", c.same_order},
          {"same_memory", c.same_memory},
          {"kinds", times_json(c.kinds, [](const KindDifference& d) { return d.kind; })},
          {"ops", times_json(c.ops, [](const OpDifference& d) { return d.name; })},
          {"streams", times_json(c.streams, [](const StreamDifference& d) { return d.name; })},
          {"memory", memory},
          {"losses", {{"steps", c.losses.steps}, {"largest_difference", c.losses.largest}}},
          {"conclusion", c.conclusion}};
}

}  // namespace

int compare_command(const CompareArguments& arguments, const Console& console) {
  const Side a = open_side(arguments.a, console);
  if (!a.run) return report_errors(console, a.errors);
  const Side b = open_side(arguments.b, console);
  if (!b.run) return report_errors(console, b.errors);
  const Comparison comparison = compare(a.run->report, a.run->trace, b.run->report, b.run->trace);
  if (arguments.json) {
    console.out << json_text(comparison_json(a.run->report, b.run->report, comparison));
    return 0;
  }
  console.out << comparison_text(arguments.a, a.run->report, arguments.b, b.run->report, comparison,
                                 console.screen());
  return 0;
}

}  // namespace lockstep
