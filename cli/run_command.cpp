// lockstep run: lowers a scenario, runs the program on a backend, and makes a report of the trace,
// for every point of a sweep; or runs a program's text.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "backends/mpi/mpi_process.hpp"
#include "backends/tcp/tcp_process.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/other_file.hpp"
#include "cli/point_run.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/expectations.hpp"
#include "core/chakra/program/program.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/lower/capacity.hpp"
#include "core/plan/remedies.hpp"
#include "core/run/watch.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/program_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

/// What can be done where a scenario does not fit on the devices of its cluster, or, if these have
/// the room, on this machine.
std::string what_would_fit(const Scenario& scenario) {
  const Result<LayoutFigures> there = simulated_layout(scenario);
  if (!there) return remedies_text(remedies(scenario, simulated_layout, simulated_probe));
  return "the scenario's devices have the room, and this machine has not: take a smaller model or "
         "batch, processes on several machines (docs/mpi.md), or --backend sim\n";
}

namespace fs = std::filesystem;

/// What a command has come to: errors, or a signal that stopped it.
struct RunOutcome {
  std::vector<Error> errors;
  bool stopped = false;
  std::string diverged = {};  // what to say of it
};

/// A list of the reports of a sweep's points, each with its "label", and a "failure" instead of
/// figures if it has none. A sweep of one point is a list, too.
std::string sweep_json(const std::vector<SweepRow>& rows) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const SweepRow& row : rows) {
    ordered_json point = {{"label", row.label}};
    if (row.report) {
      point.update(ordered_json::parse(report_json(*row.report)));
    } else {
      point["failure"] = row.failure;
    }
    list.push_back(std::move(point));
  }
  return json_text(list);
}

/// Sets the scaling efficiency of a sweep's next point, relative to the first one that has run, or
/// to itself if there is none.
void compare_with_first(Report& report, const std::vector<SweepRow>& rows) {
  const auto rate_per_rank = [](const Report& r) {
    return (r.tokens_per_s + r.images_per_s) / r.world_size;
  };
  const auto first = std::find_if(rows.begin(), rows.end(),
                                  [](const SweepRow& row) { return row.report.has_value(); });
  const double base = rate_per_rank(first == rows.end() ? report : *first->report);
  if (base > 0) report.scaling_efficiency = rate_per_rank(report) / base;
}

/// The program of a Chakra trace, which only the simulator can run: nothing is computed in it.
LoadedProgram load_chakra(const RunArguments& arguments, const ClusterSpec& cluster,
                          const Console& console) {
  LoadedProgram loaded;
  if (arguments.backend != "sim") {
    loaded.errors.push_back(invalid(arguments.scenario +
                                    " is a Chakra trace, which says how long "
                                    "things take and not what is computed: --backend sim"));
    return loaded;
  }
  const Result<ChakraTrace> trace = read_chakra(arguments.scenario);
  if (!trace) return {{}, {trace.error()}};
  for (const std::string& remark : trace->remarks) report_note(console, remark);
  Result<Program> program = program_of(
      *trace, {peak_rate(cluster.device, DType::BF16).v, cluster.device.memory_bandwidth.v});
  if (!program) return {{}, {program.error()}};
  loaded.program = std::move(*program);
  return loaded;
}

/// Runs a program's text or a Chakra trace. What a scenario would say besides comes from options.
RunOutcome run_program(const RunArguments& arguments, const Console& console, Process& process) {
  if (!arguments.set.empty()) {
    return {{invalid("--set changes a key of a scenario; " + arguments.scenario +
                     " is a program: change its text")}};
  }
  Subject subject;
  std::vector<Error> errors;
  subject.cluster = load_cluster(arguments.cluster.empty() ? "cpu" : arguments.cluster, errors);
  if (!errors.empty()) return {errors};
  LoadedProgram loaded = is_chakra(arguments.scenario)
                             ? load_chakra(arguments, subject.cluster, console)
                             : load_program(arguments.scenario, unproven(arguments.allow));
  if (!loaded.errors.empty()) return {loaded.errors};
  if (unproven(arguments.allow).replicas && process.index() == 0) {
    report_note(console, "not proven: " + std::string(kReplicasUnproven));
  }
  subject.cluster = with_room_for(loaded.program, std::move(subject.cluster));
  if (auto fits = check_fits(loaded.program, subject.cluster); !fits) return {{fits.error()}};
  subject.program = [&] { return Result<Program>(std::move(loaded.program)); };
  subject.dataset = arguments.data;
  subject.drive_folder = arguments.nvme_path;
  subject.checkpoint.interval = arguments.checkpoint_every.value_or(0);
  auto ran = run_point(arguments, console, subject, process, arguments.out);
  if (!ran) return {{ran.error()}};
  if (ran->report) {
    console.out << (arguments.json
                        ? report_json(*ran->report)
                        : report_text(*ran->report, arguments.scenario, console.screen()));
    console.out.flush();
  }
  return {{}, ran->ending == Ending::Stopped, ran->diverged};
}

/// Options that a scenario says by a key.
std::vector<Error> misplaced_options(const RunArguments& arguments) {
  for (const auto& [given, option, key] :
       {std::tuple{!arguments.cluster.empty(), "--cluster", "cluster.preset"},
        std::tuple{!arguments.data.empty(), "--data", "training.dataset"},
        std::tuple{!arguments.nvme_path.empty(), "--nvme-path", "parallelism.offload_nvme_path"},
        std::tuple{arguments.checkpoint_every.has_value(), "--checkpoint-every",
                   "checkpoint.interval"}}) {
    if (!given) continue;
    return {invalid(std::string(option) + " is for a program's text; in a scenario it is " + key +
                    ": --set " + key + "=...")};
  }
  if (!arguments.allow.empty()) {
    return {invalid("--allow is for a program's text; of a scenario's program all is proven")};
  }
  return {};
}

/// The expectations that are of what is run: those of the file if no override changes what it
/// describes, and those that are overrides themselves.
std::vector<Expectation> judged(std::vector<Expectation> expect, const LoadedScenario& loaded) {
  if (!loaded.departures.empty()) {
    std::erase_if(expect, [](const Expectation& e) { return e.where.file != kOverrideFile; });
  }
  return expect;
}

/// Says that nothing is judged, where somebody may count on it.
void tell_of_departures(const Console& console, const LoadedScenario& loaded) {
  const auto& expect = loaded.points.front().scenario.expect;
  if (loaded.departures.empty() || judged(expect, loaded).size() == expect.size()) return;
  std::string keys;
  for (const std::string& key : loaded.departures) keys += (keys.empty() ? "" : ", ") + key;
  report_note(console,
              "[expect] of the file is not judged: " + keys + " is not as the file has it");
}

RunOutcome run_points(const RunArguments& arguments, const Console& console, Process& process) {
  if (auto misplaced = misplaced_options(arguments); !misplaced.empty()) return {misplaced};
  const Software software = arguments.backend == "sim" ? Software::Usual : Software::Own;
  const LoadedScenario loaded =
      load_scenario(arguments.scenario, arguments.set, kOverrideFile, software);
  if (!loaded.ok()) return {loaded.errors};
  report_warnings(console, loaded.warnings);
  if (!arguments.quiet) tell_of_departures(console, loaded);
  const bool sweep = !loaded.points.front().label.empty();
  if (sweep && !arguments.resume.empty()) {
    return {{invalid("--resume continues one run; the scenario is a sweep")}};
  }
  if (sweep && !arguments.picture.empty()) {
    return {
        {invalid("--picture draws one run; the scenario is a sweep: choose a point with --set")}};
  }
  if (sweep && process.size() > 1) {
    return {{invalid("a sweep runs in one process, and " + std::to_string(process.size()) +
                     " were started")}};
  }
  std::vector<SweepRow> rows;
  RunOutcome outcome;
  for (std::size_t i = 0; i < loaded.points.size() && !outcome.stopped; ++i) {
    const SweepPoint& point = loaded.points[i];
    std::string out = arguments.out;
    if (sweep && !out.empty()) out = (fs::path(out) / std::to_string(i)).string();
    if (sweep && arguments.timeline) {
      (arguments.json ? console.err : console.out) << point.label << "\n";
    }
    const Subject subject = subject_of(point.scenario);
    Result<SessionOutcome> ran = run_point(arguments, console, subject, process, out);
    std::vector<Error> errors;
    SweepRow row{point.label, std::nullopt, ""};
    if (ran) {
      row.report = std::move(ran->report);
      outcome.stopped = ran->ending == Ending::Stopped;
      if (outcome.diverged.empty()) outcome.diverged = ran->diverged;
      if (row.report && sweep) compare_with_first(*row.report, rows);
      if (row.report && ran->ending == Ending::Done) {
        errors = check_expectations(*row.report, judged(point.scenario.expect, loaded));
      }
    } else {  // that a point does not fit is an answer, too, so the others go on
      errors.push_back(ran.error());
      if (!sweep && ran.error().kind == ErrorKind::OutOfMemory) {
        errors.back().message += "\n" + what_would_fit(point.scenario);
      }
      row.failure = ran.error().kind == ErrorKind::OutOfMemory ? "does not fit" : "failed";
    }
    rows.push_back(std::move(row));
    for (Error& error : errors) {
      if (sweep) error.message = point.label + ": " + error.message;
      outcome.errors.push_back(std::move(error));
    }
  }
  if (sweep) {
    console.out << (arguments.json ? sweep_json(rows) : sweep_text(rows, console.screen()));
  } else if (rows.front().report) {
    const Report& report = *rows.front().report;
    console.out << (arguments.json
                        ? report_json(report)
                        : report_text(report, loaded.points.front().scenario, console.screen()));
  }
  console.out.flush();
  return outcome;
}

RunOutcome run_file(const RunArguments& arguments, const Console& console, Process& process) {
  const bool chakra = is_chakra(arguments.scenario);
  if (!chakra) {
    if (const auto other = other_than_scenario(arguments.scenario)) return {{*other}};
  }
  const bool program = chakra || is_program_file(arguments.scenario);
  return program ? run_program(arguments, console, process)
                 : run_points(arguments, console, process);
}

/// Says what went wrong, and returns the exit code.
int report(const Console& console, const RunOutcome& outcome) {
  const int code = report_errors(console, outcome.errors);
  if (!outcome.diverged.empty()) report_error(console, invalid(outcome.diverged));
  if (code != 0) return code;
  return !outcome.diverged.empty() ? kDiverged : outcome.stopped ? kStopped : 0;
}

/// Runs as one of several processes. The leader speaks for all; only what happened on the way, a
/// device or a connection that failed, is said by everyone, because their logs may be all that is
/// left. An error of any process ends all.
int run_together(const RunArguments& arguments, const Console& console, Process& process) {
  const bool leads = process.index() == 0;
  std::ostream nowhere(nullptr);
  const Console silent{nowhere, nowhere, console.width, false, false, console.cancel};
  RunOutcome outcome = run_file(arguments, leads ? console : silent, process);
  if (!outcome.errors.empty()) {
    process.fail(outcome.errors.front());
  } else if (const Result<void> finished = process.finish(); finished) {
    return report(leads ? console : silent, outcome);
  } else {
    outcome.errors.push_back(finished.error());
  }
  const Error& first = outcome.errors.front();
  if (leads) {
    report_errors(console, outcome.errors);
  } else if (first.kind == ErrorKind::Device) {
    // In one piece, because others write to the same terminal.
    console.err << "process " + std::to_string(process.index()) +
                       ": error: " + printable(to_string(first)) + "\n";
  }
  console.err.flush();
  const int code = leads ? exit_code(first.kind) : exit_code(ErrorKind::Device);
  process.end_all(code);
  return code;
}

}  // namespace

int run_command(const RunArguments& arguments, const Console& console) {
  // If the launcher says where process 0 listens, TCP is used, even if MPI's variables are set,
  // too.
  Result<std::optional<TcpLaunch>> tcp = find_tcp_launch();
  if (!tcp) return report_error(console, tcp.error());
  if (*tcp) (*tcp)->cancel = console.cancel;
  if (*tcp && (*tcp)->rank == 0 && !arguments.insecure && is_open_to_anyone(**tcp)) {
    report_warnings(
        console,
        {invalid("this job has no secret, and other hosts can reach its ports: anyone there can "
                 "join it, change its weights and end it. Give all processes one LOCKSTEP_SECRET "
                 "(or LOCKSTEP_SECRET_FILE); --insecure says that the network is trusted")});
  }
  if (const auto timeout = watch_timeout(); !timeout) return report_error(console, timeout.error());
  const std::optional<Launch> mpi = *tcp ? std::nullopt : find_launch();
  if (arguments.processes > 0 && !*tcp && !mpi) return launch_locally(arguments, console);
  if (!*tcp && !mpi) {
    SoleProcess process;
    return report(console, run_file(arguments, console, process));
  }
  const Result<std::unique_ptr<Process>> process = *tcp ? join_tcp(**tcp) : join_mpi(*mpi);
  if (!process) {
    const int code = report_error(console, process.error());
    return console.cancel != nullptr && *console.cancel ? kStopped : code;
  }
  if (!arguments.quiet && (*process)->index() == 0) {
    report_note(console,
                std::to_string((*process)->size()) + " processes, started by " +
                    (mpi ? mpi->launcher + " (" + mpi->variable + ")" : "torchrun (WORLD_SIZE)"));
  }
  return run_together(arguments, console, **process);
}

}  // namespace lockstep
