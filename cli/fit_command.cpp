// lockstep fit: fits constants of the simulator to measured times, and writes them as a profile.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "cli/commands.hpp"
#include "cli/fit_text.hpp"
#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"
#include "core/base/thread_team.hpp"
#include "core/fit/fit.hpp"
#include "core/fit/measurements.hpp"
#include "core/fit/traced_kernels.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_trace(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.gz");
}

/// The trace files of a folder, sorted.
std::vector<std::string> traces_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_trace(entry.path())) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Collects what the inputs say.
class Inputs {
 public:
  Inputs(const FitArguments& arguments, int threads) : arguments_(arguments), threads_(threads) {}
  std::vector<Observation> rows;
  std::vector<std::string> remarks;
  std::vector<Error> errors;

  void read() {
    for (const std::string& input : arguments_.inputs) read(input);
    if (errors.empty() && !arguments_.source.empty()) keep_source();
  }

 private:
  void read(const std::string& input) {
    std::error_code ignored;
    if (fs::is_directory(input, ignored)) {
      const bool run = fs::exists(fs::path(input) / "scenario.toml", ignored) ||
                       fs::exists(fs::path(input) / "program.txt", ignored);
      const std::vector<std::string> traces = run ? std::vector<std::string>{} : traces_in(input);
      if (!traces.empty()) return read_traces(input, traces);
      return take(read_run_measurement(input, arguments_.set));
    }
    if (is_trace(input)) return read_traces(input, {input});
    const Result<std::string> text = read_file(input);
    if (!text) return errors.push_back(text.error());
    const Result<CsvTable> table = parse_csv(*text, input);
    if (!table) return errors.push_back(table.error());
    take(read_step_measurements(*table, arguments_.set));
  }

  void take(StepMeasurements measurements) {
    errors.insert(errors.end(), measurements.errors.begin(), measurements.errors.end());
    if (!measurements.errors.empty()) return;
    std::vector<Observation> more = observations_of(measurements, step_time_model, threads_);
    std::move(more.begin(), more.end(), std::back_inserter(rows));
    remarks.insert(remarks.end(), measurements.remarks.begin(), measurements.remarks.end());
  }

  void read_traces(const std::string& input, const std::vector<std::string>& files) {
    if (arguments_.cluster.empty()) {
      return errors.push_back(invalid(input + " is a trace, which does not say whose figures its "
                                              "kernels are to fit: give --cluster"));
    }
    const ClusterSpec cluster = load_cluster(arguments_.cluster, errors);
    if (!errors.empty()) return;
    std::vector<TracedKernel> kernels;
    std::int64_t calls = 0;
    for (const std::string& file : files) {
      Result<std::vector<TracedKernel>> more = read_traced_kernels(file);
      if (!more) return errors.push_back(more.error());
      std::int64_t last = 0;
      for (TracedKernel& kernel : *more) {
        last = std::max(last, kernel.call + 1);
        kernel.call += calls;
        kernels.push_back(std::move(kernel));
      }
      calls += last;
    }
    Result<TracedObservations> traced = observations_of(kernels, cluster, input);
    if (!traced) return errors.push_back(traced.error());
    std::move(traced->rows.begin(), traced->rows.end(), std::back_inserter(rows));
    remarks.insert(remarks.end(), traced->remarks.begin(), traced->remarks.end());
  }

  void keep_source() {
    std::set<std::string> groups;
    for (const Observation& row : rows) groups.insert(row.group);
    std::erase_if(rows, [&](const Observation& row) {
      return fnmatch(arguments_.source.c_str(), row.group.c_str(), 0) != 0;
    });
    if (!rows.empty()) return;
    const std::string near = nearest(arguments_.source, {groups.begin(), groups.end()});
    errors.push_back(invalid("no row is of a source '" + arguments_.source + "'" +
                             (near.empty() ? "" : "; did you mean '" + near + "'?")));
  }

  const FitArguments& arguments_;
  int threads_;
};

/// The name that all rows share; an error that says what to do if there are several.
Result<std::string> one_profile(const std::vector<Observation>& rows, bool of_framework) {
  std::set<std::string> names;
  for (const Observation& row : rows) {
    names.insert(of_framework ? row.cluster.framework.preset : row.cluster.name);
  }
  if (names.size() == 1) return *names.begin();
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return invalid(std::string(of_framework ? "--framework-out" : "--out") +
                 " writes one profile, and the rows have several: " + list +
                 "; choose rows of one, perhaps with --source");
}

Result<void> write_profiles(const FitArguments& arguments, const Fit& fit,
                            const std::vector<Observation>& rows) {
  ClusterSpec cluster = fit.applied(rows.front().cluster);
  if (!arguments.out.empty()) {
    cluster.name = fs::path(arguments.out).stem().string();
    cluster.nodes = 1;
    const Result<void> written =
        write_file(arguments.out, fit_comment(fit, false) + print_cluster_profile(cluster));
    if (!written) return written.error();
  }
  if (arguments.framework_out.empty()) return {};
  return write_file(arguments.framework_out,
                    fit_comment(fit, true) + print_framework_profile(cluster.framework));
}

}  // namespace

int fit_command(const FitArguments& arguments, const Console& console) {
  const auto start = std::chrono::steady_clock::now();
  FitOptions options;
  options.leave_out = arguments.leave_out == "source" ? LeaveOut::Group : LeaveOut::Row;
  options.threads = threads_or_cores(arguments.threads);
  std::vector<FitTarget> targets;
  if (!arguments.fit.empty()) {
    Result<std::vector<FitTarget>> parsed = parse_fit_targets(arguments.fit);
    if (!parsed) return report_error(console, parsed.error());
    targets = std::move(*parsed);
  }
  Inputs inputs(arguments, options.threads);
  inputs.read();
  if (!inputs.errors.empty()) return report_errors(console, inputs.errors);
  for (const bool of_framework : {false, true}) {
    if ((of_framework ? arguments.framework_out : arguments.out).empty()) continue;
    const Result<std::string> profile = one_profile(inputs.rows, of_framework);
    if (!profile) return report_error(console, profile.error());
  }
  if (console.live && !arguments.quiet) {
    options.progress = [&](std::size_t simulations) {
      show_status(console, fmt::format("{} simulations", simulations));
    };
  }
  if (arguments.fit.empty()) {
    Result<std::vector<FitTarget>> chosen = choose_fit_targets(inputs.rows, options);
    if (!chosen) return report_error(console, chosen.error());
    targets = std::move(*chosen);
  }
  const Result<Fit> fit = fit_constants_to(inputs.rows, targets, options);
  if (options.progress) show_status(console, "");
  if (!fit) return report_error(console, fit.error());
  if (const Result<void> written = write_profiles(arguments, *fit, inputs.rows); !written) {
    return report_error(console, written.error());
  }
  if (!arguments.quiet) {
    for (const std::string& remark : inputs.remarks) report_note(console, remark);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    report_note(console,
                fmt::format("{} simulations in {:.1f} s", fit->simulations, passed.count()));
  }
  console.out << (arguments.json ? fit_json(*fit, inputs.remarks)
                                 : fit_text(*fit, arguments.rows, console.screen()));
  return 0;
}

}  // namespace lockstep
