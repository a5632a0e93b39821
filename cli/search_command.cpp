// lockstep search: the layouts of a scenario's cluster, simulated, fastest first.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/commands.hpp"
#include "cli/simulated_step.hpp"
#include "core/format/format.hpp"
#include "core/plan/search.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Result<LayoutFigures> simulated(const Scenario& scenario) {
  const Result<Report> step = simulated_step(scenario);
  if (!step) return step.error();
  return LayoutFigures{step->tokens_per_s,    step->mfu,
                       step->step_time,       step->exposed_comm,
                       step->bubble_fraction, fullest_rank(*step)};
}

std::string table_text(const SearchResult& result, std::size_t top) {
  TextTable table({"layout", "tokens/s", "MFU", "step time", "bubble", "exposed comm", "memory"});
  for (std::size_t i = 0; i < std::min(top, result.found.size()); ++i) {
    const FoundLayout& found = result.found[i];
    const LayoutFigures& f = found.figures;
    table.add({layout_name(found.scenario), count_text(f.tokens_per_s), percent_text(f.mfu),
               time_text(f.step_time), percent_text(f.bubble_fraction),
               percent_text(f.exposed_comm.v / f.step_time.v), bytes_text(f.peak_memory)});
  }
  return table.text();
}

std::string found_json(const SearchResult& result) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FoundLayout& found : result.found) {
    const LayoutFigures& f = found.figures;
    list.push_back({{"layout", layout_name(found.scenario)},
                    {"tokens_per_s", f.tokens_per_s},
                    {"mfu", f.mfu},
                    {"step_time_s", f.step_time.v},
                    {"bubble_fraction", f.bubble_fraction},
                    {"exposed_comm_s", f.exposed_comm.v},
                    {"peak_memory_bytes", f.peak_memory.v},
                    {"scenario", print_scenario(found.scenario)}});
  }
  return list.dump(2) + "\n";
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
  if (base.model.architecture == Architecture::Synthetic) {
    return invalid("the synthetic model has times for one layout; search needs a model's sizes");
  }

  const fs::path folder = fs::path(arguments.write).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !fs::is_directory(folder, ignored)) {  // before the work, not after it
    return invalid("--write " + arguments.write + ": there is no folder " + folder.string());
  }
  const std::vector<LayoutFamily> families = layout_families(base);
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
    console.err << fmt::format("\r\x1b[K{} of {} families, {} layouts{}", p.done, p.families,
                               p.asked,
                               p.best ? fmt::format("; {} tokens/s: {}",
                                                    count_text(p.best->figures.tokens_per_s),
                                                    layout_name(p.best->scenario))
                                      : "")
                << std::flush;
  };
  const Result<SearchResult> result = search(families, simulated, options);
  if (live) console.err << "\r\x1b[K" << std::flush;
  if (!result) return report_error(console, result.error());

  if (result->found.empty()) {
    return report_error(
        console,
        {ErrorKind::OutOfMemory,
         fmt::format("none of {} layouts fits{}", result->asked,
                     families.empty() ? ": the states alone exceed the memory, or no layout "
                                        "divides the model and the batch"
                                      : ""),
         std::nullopt});
  }
  if (!arguments.write.empty()) {
    const Scenario& best = result->found.front().scenario;
    const Result<void> written =
        write_file(arguments.write, "# Found by lockstep search: " + layout_name(best) + "\n" +
                                        print_scenario(best));
    if (!written) return report_error(console, written.error());
  }
  if (arguments.json) {
    console.out << found_json(*result);
    return 0;
  }
  console.out << fmt::format("{} on {}, {} sequences of {} tokens a step\n\n", base.model.name,
                             base.cluster.name, base.global_batch_size(), base.training.seq_len)
              << table_text(*result, static_cast<std::size_t>(arguments.top))
              << fmt::format("\n{} layouts simulated, {} of them do not fit", result->asked,
                             result->too_large);
  if (result->not_tried > 0) {
    console.out << fmt::format("; {} of {} families not tried in {:g} s (--seconds)",
                               result->not_tried, families.size(), arguments.seconds);
  }
  console.out << "\n";
  return 0;
}

}  // namespace lockstep
