#include "cli/quickstart/quickstart.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "backends/cpu/calibrate.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "backends/cpu/replay.hpp"
#include "backends/sim/sim_backend.hpp"
#include "core/analysis/report.hpp"
#include "core/base/new_file.hpp"
#include "core/calibration/calibration.hpp"
#include "core/ir/text/text.hpp"
#include "core/lower/lower.hpp"
#include "core/model/model.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/trace/chrome_trace.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRanks = 8;     // more divide a small model into parts that mostly wait
constexpr int kMostTraced = 100;  // steps
// After every second traced step, kernels are timed for one: what else the host does changes the
// speed of a virtual machine by a third within seconds, and prediction and measurement are to be of
// the same seconds.
constexpr int kTurn = 2;
constexpr int kHandOvers = 100;  // of one thread to another, of which the median counts

/// The clock, the processor time of this process, and that of all (negative if it is not known).
struct Moment {
  std::chrono::steady_clock::time_point clock;
  double own = 0, all = -1;

  static Moment now() {
    Moment moment{std::chrono::steady_clock::now(), 0, -1};
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    moment.own = seconds(used.ru_utime) + seconds(used.ru_stime);
    // "cpu", then ticks: user, nice, system, idle, waiting, irq, softirq, stolen by the host.
    std::ifstream stat("/proc/stat");
    std::string name;
    double ticks[8] = {};
    if (!(stat >> name)) return moment;
    for (double& t : ticks) stat >> t;
    if (!stat) return moment;
    moment.all = (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]) /
                 static_cast<double>(sysconf(_SC_CLK_TCK));
    return moment;
  }
  double clock_since(const Moment& before) const {
    return std::chrono::duration<double>(clock - before.clock).count();
  }
};

struct Measured {
  RunResult run;
  Moment begin, from, to, end;                  // of the training, and of the traced steps
  double step_time = 0;                         // mean of the traced steps, s
  double replayed = 0, replayed_processor = 0;  // s of the training that were not spent on it
};

Result<Scenario> load(const QuickstartOptions& options, const std::string& profile) {
  const QuickstartLayout layout = quickstart_layout(options.cores);
  std::vector<std::string> set = {
      "parallelism.pipeline_parallel_degree=" + std::to_string(layout.stages),
      "parallelism.data_parallel_replicate_degree=" + std::to_string(layout.replicas)};
  if (!profile.empty()) set.push_back("cluster.profile=" + profile);
  LoadedScenario loaded = load_scenario(options.scenario, set);
  if (!loaded.ok()) return loaded.errors.front();
  return std::move(loaded.points.front().scenario);
}

/// Trains, and replays between traced steps.
Result<Measured> train(const Program& program, const Scenario& scenario,
                       const QuickstartOptions& options, cpu::Replay& replay) {
  Measured measured;
  const int steps = options.steps > 0 ? options.steps : program.training.steps;
  RunOptions run;
  run.steps = steps;
  run.trace_from = steps / 2;  // when caches, clocks and allocators have settled
  run.trace_steps = std::min(kMostTraced, steps - run.trace_from);
  run.dataset = scenario.dataset_path();
  measured.begin = measured.from = measured.to = Moment::now();
  run.on_step = [&](const StepResult& step) {
    if (step.step + 1 == run.trace_from) measured.from = Moment::now();
    if (step.step + 1 == run.trace_from + run.trace_steps) measured.to = Moment::now();
    options.on_progress("training, loss " + std::to_string(step.loss), step.step + 1, steps);
    const int traced = step.step - run.trace_from;
    if (traced < 0 || traced >= run.trace_steps) return;
    measured.step_time += step.time.v / run.trace_steps;
    if (traced % kTurn != 0) return;
    const Moment before = Moment::now();
    replay.run(1);
    const Moment after = Moment::now();
    measured.replayed += after.clock_since(before);
    measured.replayed_processor += after.own - before.own;
  };
  Result<RunResult> ran = make_cpu_backend()->run(program, scenario.cluster, run);
  if (!ran) return ran.error();
  measured.run = std::move(*ran);
  measured.end = Moment::now();
  return measured;
}

MachineUse use_of(const Measured& measured, int cores, int ranks) {
  MachineUse use;
  use.cores = cores;
  use.ranks = ranks;
  if (getloadavg(&use.load, 1) != 1) use.load = -1;
  const Moment &from = measured.from, &to = measured.to;
  const double clock = to.clock_since(from);
  if (from.all >= 0 && to.all >= 0 && clock > 0) {  // in ticks: a little less than nothing is none
    use.others = std::max(0.0, (to.all - from.all - (to.own - from.own)) / clock);
  }
  use.clock = {measured.end.clock_since(measured.begin) - measured.replayed};
  use.processor = {measured.end.own - measured.begin.own - measured.replayed_processor};
  return use;
}

/// What `lockstep compare`, `report` and the application read of a run.
Result<void> write_run(const fs::path& folder, const Scenario& scenario, const Program& program,
                       const Trace& trace, const Report& report) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  fs::create_directories(folder, failed);
  if (failed) return invalid("cannot make the folder " + folder.string() + ": " + failed.message());
  for (const auto& [name, text] :
       {std::pair("scenario.toml", print_scenario(scenario)),
        std::pair("program.txt", print(program)), std::pair("report.json", report_json(report))}) {
    if (auto written = write_file((folder / name).string(), text); !written) return written;
  }
  return write_chrome_trace(trace, (folder / "trace.json.gz").string());
}

Seconds mean_of_kind(const Report& report, const char* kind) {
  const auto found = report.kinds.find(kind);
  return {found == report.kinds.end() ? 0 : found->second.time.v / report.world_size};
}

template <class F>
Seconds mean_of_ranks(const Report& report, F of) {
  double sum = 0;
  for (const RankReport& rank : report.ranks) sum += of(rank).v;
  return {sum / static_cast<double>(report.ranks.size())};
}

/// Of one step: its time, then computation, two of its kinds, and waiting; a single rank, which
/// waits for nobody, has its optimizer there.
std::vector<std::pair<std::string, double>> parts_of(const Report& report) {
  const auto compute = [](const RankReport& r) { return r.compute; };
  const auto waiting = [](const RankReport& r) { return Seconds{r.idle.v + r.exposed_comm.v}; };
  const bool alone = report.world_size == 1;
  return {{"step time", report.step_time.v},
          {"computation", mean_of_ranks(report, compute).v},
          {"  forward", mean_of_kind(report, "forward").v},
          {"  backward", mean_of_kind(report, "backward").v},
          {alone ? "  optimizer" : "waiting",
           (alone ? mean_of_kind(report, "optimizer") : mean_of_ranks(report, waiting)).v}};
}

/// The means of the simulated steps, beside the measured ones.
std::vector<Figure> figures(const std::vector<Report>& predicted, const Report& measured,
                            double measured_step_time, double tokens_per_step) {
  std::vector<Figure> all;
  for (const auto& [name, value] : parts_of(measured)) all.push_back({name, 0, value});
  for (const Report& step : predicted) {
    const auto parts = parts_of(step);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      all[i].predicted += parts[i].second / static_cast<double>(predicted.size());
    }
  }
  all.insert(all.begin() + 1, {"tokens/s", tokens_per_step / all.front().predicted,
                               tokens_per_step / measured_step_time, Figure::Unit::PerSecond});
  return all;
}

/// Simulations of the steps whose kernels were timed, with their times, by the time that they take.
Result<std::vector<std::pair<Report, Trace>>> simulate(const Program& program,
                                                       const Scenario& scenario,
                                                       const cpu::Replay& replay) {
  std::vector<std::pair<Report, Trace>> steps;
  for (CallFactors& factors : replay.factors()) {
    WhatIfSpec what_if = scenario.what_if;
    what_if.recorded = std::make_shared<const CallFactors>(std::move(factors));
    Result<RunResult> run = make_sim_backend(what_if)->run(program, scenario.cluster, {});
    if (!run) return run.error();
    Report report = analyze(run->trace, program, scenario.cluster);
    steps.emplace_back(std::move(report), std::move(run->trace));
  }
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return a.first.step_time.v < b.first.step_time.v; });
  return steps;
}

/// How long a rank computes before it waits, s: what it waits for are transfers.
double work_between_waits(const Program& program, const std::vector<KernelTime>& kernels) {
  double seconds = 0;
  std::int64_t transfers = 0;
  for (const KernelTime& kernel : kernels) seconds += kernel.seconds * kernel.count;
  for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
    for (const Op& op : program.role_of(rank).ops) {
      transfers += is_p2p(op.kind) || is_collective(op.kind) ? 1 : 0;
    }
  }
  return seconds / static_cast<double>(std::max<std::int64_t>(1, transfers));
}

}  // namespace

QuickstartLayout quickstart_layout(int cores) {
  const int ranks =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(std::clamp(cores, 1, kMostRanks))));
  return ranks == 1 ? QuickstartLayout{} : QuickstartLayout{2, ranks / 2};
}

Result<Quickstart> run_quickstart(const QuickstartOptions& options) {
  const fs::path out = fs::absolute(options.out);
  std::error_code failed;
  fs::create_directories(out, failed);
  if (failed) return invalid("cannot make the folder " + out.string() + ": " + failed.message());

  const auto unmeasured = load(options, "");
  if (!unmeasured) return unmeasured.error();
  const Result<Program> program = lower(*unmeasured);
  if (!program) return program.error();

  Quickstart result;
  result.layout = quickstart_layout(options.cores);
  options.on_progress("measuring this machine", 0, 1);
  cpu::CalibrateOptions all_but_kernels;
  all_but_kernels.kernels = false;
  Result<ClusterSpec> machine = cpu::calibrate_cpu(all_but_kernels);
  if (!machine) return machine.error();
  Result<cpu::Replay> replay = cpu::Replay::prepare(*program);
  if (!replay) return replay.error();

  Result<Measured> measured = train(*program, *unmeasured, options, *replay);
  if (!measured) return measured.error();
  const std::vector<KernelTime> kernels = replay->times();
  add_measurements(machine->device, kernels);
  machine->device.hand_over =
      cpu::hand_over_time({work_between_waits(*program, kernels)}, kHandOvers);
  const std::string profile = (out / "cpu.toml").string();
  if (auto done = write_file(profile, print_cluster_profile(*machine)); !done) return done.error();
  const Result<Scenario> scenario = load(options, profile);
  if (!scenario) return scenario.error();
  const auto simulated = simulate(*program, *scenario, *replay);
  if (!simulated) return simulated.error();
  std::vector<Report> predictions;
  for (const auto& step : *simulated) predictions.push_back(step.first);
  const auto& [prediction, trace] = (*simulated)[simulated->size() / 2];
  const Report measurement = analyze(measured->run.trace, *program, scenario->cluster);
  for (const auto& [folder, of_run, report] :
       {std::tuple(out / "simulated", &trace, &prediction),
        std::tuple(out / "measured", &std::as_const(measured->run.trace), &measurement)}) {
    auto written = write_run(folder, *scenario, *program, *of_run, *report);
    if (!written) return written.error();
  }

  result.model = scenario->model.name;
  result.data = fs::weakly_canonical(scenario->dataset_path(), failed).string();
  result.microbatches = scenario->strategy.pipeline_parallel_microbatches;
  result.parameters = build_layers(scenario->model, {}).parameter_count();
  result.tokens_per_step = program->tokens_per_step;
  for (const RankReport& rank : measurement.ranks) {
    result.peak_memory = std::max(result.peak_memory, rank.peak_memory);
  }
  result.losses = {measurement.losses.begin(), measurement.losses.end()};
  result.figures = figures(predictions, measurement, measured->step_time,
                           static_cast<double>(program->tokens_per_step));
  result.use = use_of(*measured, options.cores, measurement.world_size);
  return result;
}

}  // namespace lockstep
