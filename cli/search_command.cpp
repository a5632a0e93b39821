// lockstep search: simulates the layouts that a scenario's cluster allows, and prints the fastest.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/simulated_step.hpp"
#include "cli/commands.hpp"
#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"
#include "core/plan/search.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string table_text(const SearchResult& result, const std::string& unit, std::size_t top) {
  TextTable table({"layout", unit + "/s", "MFU", "step time", "bubble", "exposed comm", "memory"});
  for (std::size_t i = 0; i < std::min(top, result.found.size()); ++i) {
    const FoundLayout& found = result.found[i];
    const LayoutFigures& f = found.figures;
    table.add({layout_name(found.scenario), count_text(f.throughput), percent_text(f.mfu),
               time_text(f.step_time), percent_text(f.bubble_fraction),
               percent_text(f.exposed_comm.v / f.step_time.v), bytes_text(f.peak_memory)});
  }
  return table.text();
}

std::string found_json(const SearchResult& result, const std::string& unit) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FoundLayout& found : result.found) {
    const LayoutFigures& f = found.figures;
    list.push_back({{"layout", layout_name(found.scenario)},
                    {unit + "_per_s", f.throughput},
                    {"mfu", f.mfu},
                    {"step_time_s", f.step_time.v},
                    {"bubble_fraction", f.bubble_fraction},
                    {"exposed_comm_s", f.exposed_comm.v},
                    {"peak_memory_bytes", f.peak_memory.v},
                    {"scenario", print_scenario(found.scenario)}});
  }
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

int search_command(const SearchArguments& arguments, const Console& console) {
  const LoadedScenario loaded = load_scenario(arguments.scenario, arguments.set);
  if (!loaded.ok()) return report_errors(console, loaded.errors);
  const auto invalid = [&](const std::string& message) {
    return report_error(console, {ErrorKind::InvalidSpec, message, std::nullopt});
  };
  if (loaded.points.size() > 1) return invalid("search takes one scenario, and this is a sweep");
  const Scenario& base = loaded.points.front().scenario;

  const fs::path folder = fs::path(arguments.write).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !fs::is_directory(folder, ignored)) {  // checked before the work begins
    return invalid("--write " + arguments.write + ": there is no folder " + folder.string());
  }
  const std::string unit = trained_on(base);
  const auto start = std::chrono::steady_clock::now();
  const bool live = console.live && !arguments.quiet;
  SearchOptions options;
  options.threads = arguments.threads > 0
                        ? arguments.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.stop = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return passed.count() > arguments.seconds || (console.cancel && *console.cancel);
  };
  options.progress = [&](const SearchProgress& p) {
    if (!live) return;
    console.err << fmt::format(
                       "\r\x1b[K{} of {} families, {} layouts{}", p.done, p.families, p.asked,
                       p.best ? fmt::format("; {} {}/s: {}", count_text(p.best->figures.throughput),
                                            unit, layout_name(p.best->scenario))
                              : "")
                << std::flush;
  };
  const Result<SearchResult> result = search(base, simulated_layout, options);
  if (live) console.err << "\r\x1b[K" << std::flush;
  if (!result) return report_error(console, result.error());

  if (!arguments.write.empty()) {
    const Scenario& best = result->found.front().scenario;
    const Result<void> written = write_file(arguments.write, layout_file(best));
    if (!written) return report_error(console, written.error());
  }
  if (arguments.json) {
    console.out << found_json(*result, unit);
    return 0;
  }
  console.out << search_task(base) << "\n\n"
              << table_text(*result, unit, to_size(arguments.top))
              << fmt::format("\n{} layouts simulated, {} of them do not fit", result->asked,
                             result->too_large);
  if (result->not_tried > 0) {
    console.out << fmt::format("; {} of {} families not tried to the end in {:g} s (--seconds)",
                               result->not_tried, result->families, arguments.seconds);
  }
  console.out << "\n";
  return 0;
}

}  // namespace lockstep
