// lockstep run: lowers a scenario, runs the program on a backend, and makes a report of the trace,
// for every point of a sweep; or runs a program's text.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "backends/backends.hpp"
#include "backends/mpi/mpi_process.hpp"
#include "backends/simulated_step.hpp"
#include "backends/tcp/tcp_process.hpp"
#include "cli/commands.hpp"
#include "cli/program_file.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/expectations.hpp"
#include "core/analysis/report.hpp"
#include "core/analysis/timeline.hpp"
#include "core/base/result.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/ir/text/text.hpp"
#include "core/lower/capacity.hpp"
#include "core/lower/lower.hpp"
#include "core/plan/remedies.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/trace/chrome_trace.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The first steps of a backend that computes take longer, because of cold caches and memory that
/// is touched for the first time; so later steps are traced.
constexpr int kWarmupSteps = 2;
constexpr int kTracedSteps = 5;

/// What is run, and what a program does not say: on which cluster, on which data, and what is kept
/// of the run.
struct Subject {
  std::function<Result<Program>()> program;
  ClusterSpec cluster;
  WhatIfSpec what_if;
  std::string dataset;
  CheckpointSpec checkpoint;
  std::string scenario;  // resolved text; empty if there is none
};

/// The subject of a scenario, which must outlive it.
Subject subject_of(const Scenario& scenario) {
  return {[&scenario] { return lower(scenario); },
          scenario.cluster,
          scenario.what_if,
          scenario.dataset_path(),
          scenario.checkpoint,
          print_scenario(scenario)};
}

/// Runs one point of a sweep, or the only one.
class PointRun {
 public:
  PointRun(const RunArguments& arguments, const Console& console, const Subject& subject,
           Process& process, std::string out)
      : arguments_(arguments),
        console_(console),
        subject_(subject),
        process_(process),
        out_(std::move(out)) {}

  /// Returns the report in the leader, and none in other processes.
  Result<std::optional<Report>> run() {
    Result<Program> program = subject_.program();
    if (!program) return program.error();
    if (const auto fits = check_capacity(*program, subject_.cluster); !fits) return fits.error();
    Result<std::unique_ptr<Backend>> backend = make_backend(arguments_.backend, backend_options());
    if (!backend) return backend.error();
    simulated_ = (*backend)->name() == "sim";
    if (const auto resumed = load_state(); !resumed) return resumed.error();
    if (const auto planned = plan_steps(program->training.steps); !planned) return planned.error();
    if (leads()) {
      advise(*program);
      if (const auto opened = open_folder(*program); !opened) return opened.error();
    }
    Result<RunResult> ran = train(*program, **backend);
    if (!ran) return ran.error();
    if (!leads()) return std::optional<Report>();
    const Report report = analyze(ran->trace, *program, subject_.cluster);
    if (const auto closed = close_folder(*ran, report); !closed) return closed.error();
    if (arguments_.timeline) {
      (arguments_.json ? console_.err : console_.out)
          << draw_timeline(ran->trace, {console_.width, 64}) << "\n";
    }
    return std::optional<Report>(report);
  }

 private:
  bool leads() const { return process_.index() == 0; }
  std::string path(const std::string& name) const { return (fs::path(out_) / name).string(); }
  bool saves_checkpoints() const {
    return !simulated_ && !out_.empty() && subject_.checkpoint.interval > 0;
  }

  Result<void> load_state() {
    if (arguments_.resume.empty()) return {};
    if (simulated_) {
      return invalid("--resume continues training: choose a backend that computes, not 'sim'");
    }
    const Result<std::string> folder =
        find_checkpoints(arguments_.resume, subject_.checkpoint.folder);
    if (!folder) return folder.error();
    Result<TrainingState> state = load_checkpoint(*folder);
    if (!state) return state.error();
    state_ = std::make_unique<TrainingState>(std::move(*state));
    return {};
  }

  BackendOptions backend_options() const {
    BackendOptions options;
    options.process = &process_;
    options.threads_per_rank = arguments_.threads;
    options.what_if = subject_.what_if;
    options.cuda.communicator = arguments_.communicator;
    options.cuda.graphs = arguments_.cuda_graphs;
    options.cuda.cudnn = arguments_.cudnn;
    return options;
  }

  /// Decides which steps to run and to trace. `training_steps` are those of the whole training; 0
  /// if they are not known.
  Result<void> plan_steps(int training_steps) {
    first_step_ = state_ ? state_->step : 0;
    const int rest = training_steps > 0 ? training_steps - first_step_ : 1;
    options_.steps = arguments_.steps.value_or(simulated_ ? 1 : rest);
    if (options_.steps < 1) {
      return invalid("the checkpoint is at step " + std::to_string(first_step_) +
                     " and training.steps is " + std::to_string(training_steps) +
                     ": nothing is left to do (--steps N does N more)");
    }
    options_.trace_from =
        arguments_.trace_from.value_or(simulated_ ? 0 : std::min(kWarmupSteps, options_.steps - 1));
    if (options_.trace_from >= options_.steps) {
      return invalid("--trace-from " + std::to_string(options_.trace_from) + ": the run has " +
                     std::to_string(options_.steps) + " steps");
    }
    options_.trace_steps = std::min(arguments_.trace_steps.value_or(simulated_ ? 1 : kTracedSteps),
                                    options_.steps - options_.trace_from);
    options_.dataset = subject_.dataset;
    if (arguments_.cuda_graphs && arguments_.backend != "cuda") {
      return invalid("--cuda-graphs: only the backend 'cuda' has graphs");
    }
    if (arguments_.cudnn && arguments_.backend != "cuda") {
      return invalid("--cudnn: only the backend 'cuda' has kernels by cuDNN");
    }
    options_.initial_state = state_.get();
    options_.cancel = console_.cancel;
    return {};
  }

  /// Prints a hint if the vocabulary is not a multiple of what tensor cores read at a time: rows of
  /// logits then begin at unaligned addresses, and are read in smaller parts.
  void advise(const Program& program) {
    // 8 values of 16 bits are 16 bytes; nanoGPT and llm.c pad the vocabulary to a multiple of 64.
    constexpr std::int64_t kRow = 8, kPadded = 64;
    const Samples& samples = program.input.samples;
    const std::int64_t vocab = samples.kind == SampleKind::Tokens ? samples.classes : 0;
    const bool narrow = size_of(program.dtype) == 2;
    if (arguments_.backend != "cuda" || !narrow || vocab % kRow == 0) return;
    console_.err << "note: model.vocab " << vocab << " is no multiple of " << kRow
                 << ": products of logits are slow on a GPU; "
                 << (vocab + kPadded - 1) / kPadded * kPadded << " is faster\n";
  }

  Result<void> open_folder(const Program& program) {
    if (out_.empty()) {
      if (!simulated_ && subject_.checkpoint.interval > 0) {
        console_.err << "note: without --out no checkpoints are written\n";
      }
      return {};
    }
    const bool resuming = state_ != nullptr;
    if (auto done = prepare_run_folder(out_, subject_.checkpoint.folder, resuming); !done) {
      return done;
    }
    if (!subject_.scenario.empty()) {
      if (auto done = write_file(path("scenario.toml"), subject_.scenario); !done) return done;
    }
    if (auto done = write_file(path("program.txt"), print(program)); !done) return done;
    Result<MetricsLog> metrics = MetricsLog::open(path("metrics.jsonl"), first_step_);
    if (!metrics) return metrics.error();
    metrics_ = std::make_unique<MetricsLog>(std::move(*metrics));
    return {};
  }

  Result<RunResult> train(const Program& program, Backend& backend) {
    Progress progress(console_, first_step_, options_.steps, program.tokens_per_step,
                      program.input.samples.kind == SampleKind::Images ? "img" : "tok");
    options_.on_step = [&](const StepResult& step) {
      if (metrics_) metrics_->append(step, program.tokens_per_step);
      if (!arguments_.quiet && !simulated_) progress.step(step);
    };
    if (saves_checkpoints()) {
      options_.return_state = true;
      options_.checkpoint_every = subject_.checkpoint.interval;
      options_.on_checkpoint = [&](const TrainingState& state) {
        last_saved_ = state.step;
        return save_checkpoint(state, path(subject_.checkpoint.folder));
      };
    }
    return backend.run(program, subject_.cluster, options_);
  }

  Result<void> close_folder(const RunResult& ran, const Report& report) {
    if (out_.empty()) return {};
    if (saves_checkpoints() && ran.state.step != last_saved_) {
      if (auto done = save_checkpoint(ran.state, path(subject_.checkpoint.folder)); !done) {
        return done;
      }
    }
    if (auto done = write_chrome_trace(ran.trace, path("trace.json.gz")); !done) return done;
    return write_file(path("report.json"), report_json(report));
  }

  const RunArguments& arguments_;
  const Console& console_;
  const Subject& subject_;
  Process& process_;
  std::string out_;
  RunOptions options_;
  std::unique_ptr<TrainingState> state_;
  std::unique_ptr<MetricsLog> metrics_;
  bool simulated_ = false;
  int first_step_ = 0;
  int last_saved_ = -1;
};

/// A list of {"label": …, "report": …} for the points of a sweep; the report is null if one failed.
std::string sweep_json(const std::vector<SweepRow>& rows) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const SweepRow& row : rows) {
    list.push_back(
        {{"label", row.label},
         {"report", row.report ? ordered_json::parse(report_json(*row.report)) : ordered_json()}});
  }
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
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

/// Runs a program's text. What a scenario would say besides comes from options.
std::vector<Error> run_program(const RunArguments& arguments, const Console& console,
                               Process& process) {
  if (!arguments.set.empty()) {
    return {invalid("--set changes a key of a scenario; " + arguments.scenario +
                    " is a program: change its text")};
  }
  LoadedProgram loaded = load_program(arguments.scenario);
  if (!loaded.errors.empty()) return loaded.errors;
  Subject subject;
  std::vector<Error> errors;
  subject.cluster = load_cluster(arguments.cluster.empty() ? "cpu" : arguments.cluster, errors);
  if (!errors.empty()) return errors;
  ClusterSpec& cluster = subject.cluster;  // gets as many nodes as the program needs
  cluster.nodes = std::max<int>(cluster.nodes,
                                static_cast<int>(ceil_div(loaded.program.mesh.world_size(),
                                                          std::max(1, cluster.ranks_per_node()))));
  if (auto fits = check_fits(loaded.program, cluster); !fits) return {fits.error()};
  subject.program = [&] { return Result<Program>(std::move(loaded.program)); };
  subject.dataset = arguments.data;
  subject.checkpoint.interval = arguments.checkpoint_every.value_or(0);
  const auto report = PointRun(arguments, console, subject, process, arguments.out).run();
  if (!report) return {report.error()};
  if (*report) {
    console.out << (arguments.json ? report_json(**report)
                                   : report_text(**report, arguments.scenario));
    console.out.flush();
  }
  return {};
}

std::vector<Error> run_points(const RunArguments& arguments, const Console& console,
                              Process& process) {
  for (const auto& [given, option, key] :
       {std::tuple{!arguments.cluster.empty(), "--cluster", "cluster.preset"},
        std::tuple{!arguments.data.empty(), "--data", "training.dataset"},
        std::tuple{arguments.checkpoint_every.has_value(), "--checkpoint-every",
                   "checkpoint.interval"}}) {
    if (!given) continue;
    return {invalid(std::string(option) + " is for a program's text; in a scenario it is " + key +
                    ": --set " + key + "=...")};
  }
  const LoadedScenario loaded = load_scenario(arguments.scenario, arguments.set);
  if (!loaded.ok()) return loaded.errors;
  report_warnings(console, loaded.warnings);
  const bool sweep = loaded.points.size() > 1;
  if (sweep && !arguments.resume.empty()) {
    return {invalid("--resume continues one run; the scenario is a sweep")};
  }
  if (sweep && process.size() > 1) {
    return {invalid("a sweep runs in one process, and " + std::to_string(process.size()) +
                    " were started")};
  }
  std::vector<SweepRow> rows;
  std::vector<Error> failed;
  for (std::size_t i = 0; i < loaded.points.size(); ++i) {
    const SweepPoint& point = loaded.points[i];
    std::string out = arguments.out;
    if (sweep && !out.empty()) out = (fs::path(out) / std::to_string(i)).string();
    if (sweep && arguments.timeline) {
      (arguments.json ? console.err : console.out) << point.label << "\n";
    }
    Result<std::optional<Report>> report =
        PointRun(arguments, console, subject_of(point.scenario), process, out).run();
    std::vector<Error> errors;
    SweepRow row{point.label, std::nullopt, ""};
    if (report) {
      row.report = std::move(*report);
      if (row.report && sweep) compare_with_first(*row.report, rows);
      if (row.report) errors = check_expectations(*row.report, point.scenario.expect);
    } else {  // that a point does not fit is an answer, too, so the others go on
      errors.push_back(report.error());
      if (!sweep && report.error().kind == ErrorKind::OutOfMemory) {
        errors.back().message += "\n" + remedies_text(remedies(point.scenario, simulated_layout));
      }
      row.failure = report.error().kind == ErrorKind::OutOfMemory ? "does not fit" : "failed";
    }
    rows.push_back(std::move(row));
    for (Error& error : errors) {
      if (sweep) error.message = point.label + ": " + error.message;
      failed.push_back(std::move(error));
    }
  }
  if (sweep) {
    console.out << (arguments.json ? sweep_json(rows) : sweep_text(rows));
  } else if (rows.front().report) {
    const Report& report = *rows.front().report;
    console.out << (arguments.json ? report_json(report)
                                   : report_text(report, loaded.points.front().scenario));
  }
  console.out.flush();
  return failed;
}

std::vector<Error> run_file(const RunArguments& arguments, const Console& console,
                            Process& process) {
  const bool program = is_program_file(arguments.scenario);
  return program ? run_program(arguments, console, process)
                 : run_points(arguments, console, process);
}

/// Runs as one of several processes. Only the leader writes, and an error of any process ends all.
int run_together(const RunArguments& arguments, const Console& console, Process& process) {
  if (process.index() != 0) {
    std::ostream nowhere(nullptr);
    const Console silent{nowhere, nowhere};
    const std::vector<Error> errors = run_file(arguments, silent, process);
    if (!errors.empty()) process.fail(errors.front());
    if (errors.empty() && process.finish()) return 0;
    process.end_all(exit_code(ErrorKind::Device));
    return exit_code(ErrorKind::Device);
  }
  std::vector<Error> errors = run_file(arguments, console, process);
  if (errors.empty()) {
    const Result<void> finished = process.finish();
    if (finished) return 0;
    errors.push_back(finished.error());
  }
  const int code = report_errors(console, errors);
  console.err.flush();
  process.end_all(code);
  return code;
}

}  // namespace

int run_command(const RunArguments& arguments, const Console& console) {
  // If the launcher says where process 0 listens, TCP is used, even if MPI's variables are set,
  // too.
  const Result<std::optional<TcpLaunch>> tcp = find_tcp_launch();
  if (!tcp) return report_error(console, tcp.error());
  const std::optional<Launch> mpi = *tcp ? std::nullopt : find_launch();
  if (!*tcp && !mpi) {
    SoleProcess process;
    return report_errors(console, run_file(arguments, console, process));
  }
  const Result<std::unique_ptr<Process>> process = *tcp ? join_tcp(**tcp) : join_mpi(*mpi);
  if (!process) return report_error(console, process.error());
  if (!arguments.quiet && (*process)->index() == 0) {
    console.err << "note: " << (*process)->size() << " processes, started by "
                << (mpi ? mpi->launcher + " (" + mpi->variable + ")" : "torchrun (WORLD_SIZE)")
                << "\n";
  }
  return run_together(arguments, console, **process);
}

}  // namespace lockstep
