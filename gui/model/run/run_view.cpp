#include "gui/model/run/run_view.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <future>
#include <iterator>

#include "core/analysis/expectations.hpp"
#include "core/analysis/self_time.hpp"
#include "core/base/read_file.hpp"
#include "core/ir/text/text.hpp"
#include "core/lower/capacity.hpp"
#include "core/lower/lower.hpp"
#include "core/run/trace_builder.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/program_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep::gui {
namespace {

namespace fs = std::filesystem;

std::string stem(const std::string& path) {
  fs::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  std::string name = p.filename().string();
  for (const char* ending : {".gz", ".json", ".toml", ".program", ".pickle", ".pkl", ".sqlite"}) {
    if (name.ends_with(ending)) name.resize(name.size() - std::string_view(ending).size());
  }
  return name;
}

Outcome failed(Error error) { return {nullptr, {std::move(error)}}; }

/// Adds the scenario of a run folder, and its program if that is what ran. A folder without them
/// can still be opened.
void add_program(RunView& run, const std::string& folder) {
  LoadedScenario loaded = load_scenario((fs::path(folder) / "scenario.toml").string(), {});
  if (!loaded.ok()) {
    run.notes.push_back("scenario.toml cannot be read: " + to_string(loaded.errors.front()));
    return;
  }
  run.scenario = std::move(loaded.points.front().scenario);
  Result<Program> program = lower(*run.scenario);
  if (program && program_hash(*program) == run.trace.program_hash) {
    run.program = std::make_shared<const Program>(std::move(*program));
  } else {
    run.notes.push_back("scenario.toml no longer gives the program that ran");
  }
}

bool lowers_alike(const Scenario& a, Scenario b) {
  b.what_if = a.what_if;
  b.expect = a.expect;
  return a == b;
}

/// Adds what the views need of the trace and the program besides the analyses of steps. Like those
/// it comes last, when neither is moved any more.
void add_lanes(RunView& run) {
  run.lanes = Lanes(run.trace);
  run.self = self_times(run.trace);
  if (!run.program || run.program->updates_per_step <= 1) return;
  for (const Role& role : run.program->roles) {
    run.weights.push_back(weights_read(*run.program, role));
  }
}

/// Completes a run whose program and cluster are known: with its report too, which needs the same
/// analyses.
void finish_with_report(RunView& run) {
  std::future<void> lanes = std::async(std::launch::async, [&run] { add_lanes(run); });
  run.report = analyze(run.trace, *run.program, *run.cluster(), &run.steps);
  lanes.get();
}

/// Completes a run that has its report, or of which none can be made.
RunPtr finish(std::shared_ptr<RunView> run) {
  add_lanes(*run);
  const Program* program = run->program.get();
  const StepIntervals intervals(run->trace);
  for (const StepIntervals::Step& step : intervals.steps()) {
    StepGraph graph(run->trace, step.number, program, intervals);
    Bubbles bubbles = find_bubbles(graph);
    std::vector<PathSegment> path = critical_path(graph);
    run->steps.push_back({step.first, std::move(graph), std::move(bubbles), std::move(path)});
  }
  return run;
}

/// Simulates a program's text on as many nodes of CPUs as it needs.
Outcome load_program(const std::string& path, const Cancelled& cancelled) {
  LoadedProgram loaded = lockstep::load_program(path);
  if (!loaded.errors.empty()) return {nullptr, std::move(loaded.errors)};
  std::vector<Error> errors;
  ClusterSpec cluster = load_cluster("cpu", errors);
  if (!errors.empty()) return {nullptr, std::move(errors)};
  cluster = with_room_for(loaded.program, std::move(cluster));
  Result<Trace> trace = simulated_trace(loaded.program, cluster, {});
  if (!trace) return failed(trace.error());
  if (cancelled) return {};
  auto run = std::make_shared<RunView>();
  run->title = stem(path) + ", simulated";
  run->path = path;
  run->trace = std::move(*trace);
  run->program = std::make_shared<const Program>(std::move(loaded.program));
  run->where = std::move(cluster);
  run->notes.push_back("simulated on CPUs; lockstep run --cluster takes others");
  finish_with_report(*run);
  return {std::move(run), {}};
}

}  // namespace

RunPtr make_run(std::string title, Trace trace, std::optional<Scenario> scenario,
                std::optional<Program> program, std::optional<Report> report) {
  auto run = std::make_shared<RunView>();
  run->title = std::move(title);
  run->trace = std::move(trace);
  run->scenario = std::move(scenario);
  if (program) run->program = std::make_shared<const Program>(std::move(*program));
  run->report = std::move(report);
  return finish(std::move(run));
}

const StepAnalysis* RunView::step_of(SpanId span) const {
  for (const StepAnalysis& step : steps) {
    if (span >= step.first_span && span - step.first_span < step.graph.spans().size()) return &step;
  }
  return nullptr;
}

const std::vector<MemorySample>& RunView::memory() const {
  if (!trace.memory.empty() || !program || !simulated()) return trace.memory;
  std::call_once(sampled_, [&] { memory_ = memory_samples(trace, *program); });
  return memory_;
}

WeightsRead RunView::weights_of(const Span& span) const {
  if (weights.empty()) return {};
  const auto role = trace.role_of_rank[span.rank];
  return weights[role][span.op];
}

Outcome simulate(const std::string& text, const std::string& file,
                 const std::vector<std::string>& overrides, const Cancelled& cancelled,
                 const RunView* before) {
  LoadedScenario loaded = parse_scenario(text, file, overrides);
  if (!loaded.ok()) return {nullptr, std::move(loaded.errors)};
  if (cancelled) return {};
  Scenario& scenario = loaded.points.front().scenario;
  std::shared_ptr<const Program> program;
  if (before && before->program && before->scenario && lowers_alike(scenario, *before->scenario)) {
    program = before->program;
  } else {
    Result<Program> lowered = lower(scenario);
    if (!lowered) return failed(lowered.error());
    program = std::make_shared<const Program>(std::move(*lowered));
  }
  if (cancelled) return {};
  Result<Trace> trace = simulated_trace(*program, scenario.cluster, scenario.what_if);
  if (!trace) return failed(trace.error());
  if (cancelled) return {};
  auto run = std::make_shared<RunView>();
  if (const Result<void> fits = check_capacity(*program, scenario.cluster); !fits) {
    run->too_large = fits.error();
  }
  const std::string software = software_of(scenario.cluster);
  run->title = stem(file) + ", simulated" + (software.empty() ? "" : " " + as_run_by(software));
  if (loaded.points.size() > 1) {
    run->notes.push_back("first of " + std::to_string(loaded.points.size()) +
                         " points of the sweep: " + loaded.points.front().label);
  }
  run->path = file;
  run->trace = std::move(*trace);
  run->scenario = std::move(scenario);
  run->program = std::move(program);
  finish_with_report(*run);
  for (const Error& warning : loaded.warnings) run->notes.push_back(warning.message);
  if (overrides.empty()) {  // [expect] is meant for the file without overrides
    for (const Error& error : check_expectations(*run->report, run->scenario->expect)) {
      run->notes.push_back(to_string(error));
    }
  }
  return {std::move(run), {}};
}

Outcome load(const std::string& path, const Cancelled& cancelled,
             const std::function<void(double)>& progress) {
  if (kind_of_path(path) == FileKind::Program) return load_program(path, cancelled);
  Result<Run> read = open_run(path, {&cancelled, progress});
  if (!read) return failed(read.error());
  if (cancelled) return {};
  auto run = std::make_shared<RunView>();
  run->title = stem(path) + ", " + read->trace.backend;
  run->path = path;
  run->trace = std::move(read->trace);
  run->report = std::move(read->report);
  run->notes = std::move(read->remarks);
  run->sources = std::move(read->sources);
  run->allocations = std::move(read->allocations);
  if (fs::exists(fs::path(path) / "scenario.toml")) add_program(*run, path);
  bool restarted = false;
  run->metrics = MetricsTail((fs::path(path) / "metrics.jsonl").string()).poll(restarted);
  return {finish(std::move(run)), {}};
}

namespace {

/// Whether a file under any other name begins as traces do: JSON's brace, gzip, SQLite, a pickle. A
/// scenario begins with none of these.
bool begins_like_a_trace(const std::string& path) {
  constexpr std::string_view kSqlite = "SQLite format 3";
  std::string begin(kSqlite.size(), '\0');
  std::ifstream file = open_file(path);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(to_size(file.gcount()));
  return begin.starts_with('{') || begin.starts_with("\x1f\x8b") || begin.starts_with('\x80') ||
         begin == kSqlite;
}

}  // namespace

FileKind kind_of_path(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return FileKind::Folder;
  if (path.ends_with(".program")) return FileKind::Program;
  if (path.ends_with(".toml") || path.ends_with(".csv")) return FileKind::Scenario;
  constexpr std::string_view kTraces[] = {".json",   ".gz",       ".pickle", ".pkl",
                                          ".sqlite", ".nsys-rep", ".qdrep",  ".et"};
  const bool trace = std::any_of(std::begin(kTraces), std::end(kTraces),
                                 [&](std::string_view ending) { return path.ends_with(ending); });
  return trace || begins_like_a_trace(path) ? FileKind::Trace : FileKind::Scenario;
}

std::vector<Coordinate> coordinates(const std::string& rank_label) {
  std::vector<Coordinate> result;
  std::size_t i = rank_label.find('(');
  if (i == std::string::npos) return result;
  while (++i < rank_label.size() && rank_label[i - 1] != ')') {
    const std::size_t end = rank_label.find_first_of(" )", i);
    if (end == std::string::npos) break;
    std::size_t digits = end;
    while (digits > i && std::isdigit(static_cast<unsigned char>(rank_label[digits - 1]))) --digits;
    if (digits > i && digits < end && end - digits < 9) {
      result.push_back(
          {rank_label.substr(i, digits - i), std::stoi(rank_label.substr(digits, end - digits))});
    }
    i = end;
  }
  return result;
}

int coordinate(const std::string& rank_label, const std::string& dimension) {
  for (const Coordinate& c : coordinates(rank_label)) {
    if (c.dimension == dimension) return c.at;
  }
  return -1;
}

}  // namespace lockstep::gui
