// lockstep export chakra: a scenario's program, or that of a run, as Chakra's execution traces.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/chakra/program/program.hpp"
#include "core/lower/lower.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/program_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// What is written: a program, the cluster on which it is simulated, and a run of it if there was
/// one.
struct Source {
  Program program;
  ClusterSpec cluster;
  WhatIfSpec what_if;
  std::optional<Trace> measured;
};

Result<Scenario> one_scenario(const WeightsArguments& arguments, const std::string& path,
                              const Console& console) {
  const LoadedScenario loaded = load_scenario(path, arguments.set);
  if (!loaded.ok()) {
    report_errors(console, {loaded.errors.begin() + 1, loaded.errors.end()});
    return loaded.errors.front();
  }
  if (loaded.points.size() == 1) return loaded.points.front().scenario;
  return invalid(path + " is a sweep of " + std::to_string(loaded.points.size()) +
                 " scenarios: choose one with --set");
}

Result<Source> open_source(const WeightsArguments& arguments, const Console& console) {
  const fs::path from(arguments.from);
  std::error_code error;
  const bool run = fs::is_directory(from, error);
  const std::string path = run ? (from / "scenario.toml").string() : arguments.from;
  if (run && !fs::exists(path, error)) {
    return invalid(arguments.from +
                   " has no scenario.toml, so that the cluster of the run is not known: give the "
                   "scenario");
  }
  const Result<Scenario> scenario = one_scenario(arguments, path, console);
  if (!scenario) return scenario.error();
  Source source{{}, scenario->cluster, scenario->what_if, {}};
  if (!run) {
    Result<Program> program = lower(*scenario);
    if (!program) return program.error();
    source.program = std::move(*program);
    return source;
  }
  LoadedProgram program = load_program((from / "program.txt").string());
  if (!program.errors.empty()) return program.errors.front();
  source.program = std::move(program.program);
  Result<Run> read = read_run(arguments.from);
  if (!read) return read.error();
  source.measured = std::move(read->trace);
  return source;
}

struct Written {
  int ranks = 0;
  std::int64_t nodes = 0;
  std::size_t groups = 0;
};

Result<Written> write(const WeightsArguments& arguments, const Console& console) {
  const Result<Source> source = open_source(arguments, console);
  if (!source) return source.error();
  const Result<Trace> simulated =
      simulated_trace(source->program, source->cluster, source->what_if);
  if (!simulated) return simulated.error();
  ChakraWriter writer(source->program, *simulated,
                      source->measured ? *source->measured : *simulated);
  Written written{source->program.mesh.world_size(), 0, 0};
  for (Rank rank = 0; rank < written.ranks; ++rank) {
    const Result<std::vector<ChakraNode>> nodes = writer.nodes(rank);
    if (!nodes) return nodes.error();
    const std::string file = arguments.out + "." + std::to_string(rank) + ".et";
    if (auto ok = write_file(file, chakra_bytes(*nodes)); !ok) return ok.error();
    written.nodes += static_cast<std::int64_t>(nodes->size());
  }
  written.groups = writer.groups().size();
  if (auto ok = write_file(arguments.out + ".json", groups_json(writer.groups())); !ok) {
    return ok.error();
  }
  return written;
}

}  // namespace

int chakra_command(const WeightsArguments& arguments, const Console& console) {
  if (arguments.out.empty()) {
    return report_error(console, invalid("export chakra needs --out PREFIX: it writes PREFIX.0.et, "
                                         "PREFIX.1.et, ... and PREFIX.json"));
  }
  const Result<Written> written = write(arguments, console);
  if (!written) return report_error(console, written.error());
  if (arguments.json) {
    console.out << json_text({{"prefix", arguments.out},
                              {"ranks", written->ranks},
                              {"nodes", written->nodes},
                              {"groups", written->groups}});
    return 0;
  }
  report_note(console, std::to_string(written->nodes) + " nodes of " +
                           std::to_string(written->ranks) + " ranks in " + arguments.out +
                           ".0.et, ..., " + std::to_string(written->groups) + " groups in " +
                           arguments.out + ".json");
  report_note(console, "ASTRA-sim takes them as --workload-configuration=" + arguments.out +
                           " --comm-group-configuration=" + arguments.out + ".json");
  return 0;
}

}  // namespace lockstep
