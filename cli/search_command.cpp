// lockstep search: the fastest layouts that a scenario's cluster allows, and why others lose.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/other_file.hpp"
#include "core/advice/recommend.hpp"
#include "core/advice/space_json.hpp"
#include "core/advice/time_shares.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/cluster/certainty.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/plan/best_first.hpp"
#include "core/plan/explain.hpp"
#include "core/plan/sensitivity.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string found_text(const SpaceResult& result, const std::string& unit, std::size_t top,
                       const Screen& screen) {
  TextTable table({"simulated in full",
                   unit + "/s",
                   {"MFU", 3},
                   "step time",
                   {"bubble", 1},
                   {"exposed comm", 2},
                   "memory"});
  for (std::size_t i = 0; i < std::min(top, result.found.size()); ++i) {
    const FoundLayout& found = result.found[i];
    const LayoutFigures& f = found.figures;
    table.add({layout_name(found.scenario), count_text(f.throughput), percent_text(f.mfu),
               time_text(f.step_time), percent_text(f.bubble_fraction),
               percent_text(f.exposed_comm.v / f.step_time.v), bytes_text(f.memory.needed)});
  }
  return table.text(screen);
}

std::string families_text(const SpaceResult& result, std::size_t top, const Screen& screen) {
  TextTable table({"best of each family, estimated",
                   "step time",
                   {"slower", 1},
                   "memory",
                   Heading::words("because")});
  const EstimatedLayout& best = result.estimated.front();
  for (std::size_t i = 0; i < std::min(top, result.families.size()); ++i) {
    const EstimatedLayout& e = result.families[i];
    const double slower = e.estimate.step_time.v / best.estimate.step_time.v - 1;
    table.add({layout_name(e.scenario), time_text(e.estimate.step_time),
               i == 0 ? "" : percent_text(slower), bytes_text(e.estimate.needed),
               i == 0 ? "" : why_slower(best, e)});
  }
  for (std::size_t i = 0; i < result.lost.size() && i + result.families.size() < top; ++i) {
    const LostFamily& f = result.lost[i];
    table.add({f.name, "-", "", "-", why_lost(f, best, result.capacity)});
  }
  return table.text(screen);
}

std::string front_text(const SpaceResult& result, std::size_t top, const Screen& screen) {
  TextTable table({"least memory, estimated", "step time", "memory"});
  for (std::size_t i = 0; i < std::min(top, result.front.size()); ++i) {
    const EstimatedLayout& e = result.front[i];
    table.add(
        {layout_name(e.scenario), time_text(e.estimate.step_time), bytes_text(e.estimate.needed)});
  }
  return table.text(screen);
}

std::string counts_text(const SpaceResult& result, double seconds, bool verbose) {
  const SpaceCounts& c = result.counts;
  std::string text =
      fmt::format("{} layouts in {:.2f} s: {} too big, {} provably slower, ", c.layouts, seconds,
                  c.too_large + c.estimated_large + c.implied_large, c.too_slow);
  if (c.refused > 0) text += fmt::format("{} refused, ", c.refused);
  text += fmt::format("{} estimated, {} simulated", c.estimated - c.estimated_large, c.simulated);
  if (verbose) {
    text += fmt::format(
        "\ntoo big: {} by a bound on their memory, {} by an estimate, {} that need more than one "
        "of "
        "these, {} as simulated\nestimates are from {} small programs; the best was simulated with "
        "{} other settings",
        c.too_large, c.estimated_large, c.implied_large, c.simulated_large, c.probes, c.settings);
    if (result.undecided > 0) {
      text += fmt::format(
          "\n{} more are within {} of the best, as far as estimates are certain, and were not "
          "simulated (--finalists)",
          result.undecided, percent_text(EstimateClaim::kUsualTime));
    }
  } else {
    text += " (--verbose for more)";
  }
  if (result.stopped) text += "\nstopped before the end (--seconds)";
  return text + "\n";
}

/// What of its device's memory the first leaves free, if runs may take it.
std::string spare_text(const SpaceResult& result) {
  const auto capacity = static_cast<double>(result.capacity.v);
  const auto needed = static_cast<double>(result.found.front().figures.memory.needed.v);
  if (capacity <= 0 || needed * (1 + kMeasuredMemoryOver) <= capacity) return "";
  return fmt::format(
      "the first leaves {} of the memory free, and runs may take up to {} more than is simulated "
      "(docs/validation.md): --max-memory {:.4g} looks for one that leaves so much\n",
      percent_text(1 - needed / capacity), percent_text(kMeasuredMemoryOver),
      capacity / (1 + kMeasuredMemoryOver) / 1e9);
}

std::string certainty_text(const SpaceResult& result) {
  const std::optional<double> sure = probability_of_first(result);
  if (!sure) return "";
  return fmt::format(
      "the first is faster than the second with a probability of {}, as far as simulation agrees "
      "with measurement (docs/search.md)\n",
      percent_text(*sure));
}

std::string sensitivity_text(const SensitivityReport& report, const Screen& screen) {
  TextTable table({"if there were", "the first takes", Heading::words("and the fastest is")});
  for (const Sensitivity& s : report.changes) {
    const std::string more =
        s.fits ? (s.slower < 0 ? "" : "+") + percent_text(s.slower) : "does not fit";
    const std::string than = s.fits ? fmt::format(" ({} faster)", percent_text(s.by)) : "";
    table.add({s.change, more,
               s.winner.empty() ? "none of those that are compared"
               : s.other        ? s.winner + than
                                : "the same"});
  }
  std::string text = table.text(screen);
  for (const TippingPoint& t : report.tipping) {
    text += wrapped(
        fmt::format("from {:.2g} times the {} on {} is faster\n", t.factor, t.what, t.winner),
        screen, 2);
  }
  if (report.tipping.empty()) {
    text += wrapped("no bandwidth from a 16th to 16 times what it is makes another family faster\n",
                    screen, 2);
  }
  return text;
}

/// What the best of several sizes of a cluster, and batches, has most of.
double merit(const std::string& objective, const Scenario& s, const LayoutFigures& f, double cost,
             double energy) {
  if (objective == "memory") return -static_cast<double>(f.memory.needed.v);
  if (objective == "money" && cost > 0) return -cost / s.global_batch_size();
  if (objective == "energy" && energy > 0) return -energy / s.global_batch_size();
  // Without a price, or the power of a device, its throughput decides, which is the same.
  return objective == "time" ? f.throughput : f.throughput / s.cluster.capacity();
}

/// A figure of a table, where 0 is unknown.
std::string amount(double value) { return value > 0 ? fmt::format("{:.4g}", value) : "-"; }

/// The same in JSON.
nlohmann::ordered_json known(double value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

/// Money of a step of the fastest: device-hours at the device's price.
double dollars_of_step(const Scenario& s, Seconds step) {
  return s.cluster.device.dollars_per_hour * step.v / 3600 * s.cluster.capacity();
}

/// Energy of a step in joules, if devices take their most all the time.
double joules_of_step(const Scenario& s, Seconds step) {
  return s.cluster.device.watts * step.v * s.cluster.capacity();
}

/// Makes layers multiply in a type of search_types(); an empty one changes nothing.
void multiply_in(const std::string& type, TrainingSpec& training) {
  if (type.empty()) return;
  const bool fp8 = type == "fp8";
  training.mixed_precision_param = type == "float32"   ? PartDType::F32
                                   : type == "float16" ? PartDType::F16
                                                       : PartDType::BF16;
  if (!fp8) {
    training.fp8 = Fp8Format::None;
  } else if (training.fp8 == Fp8Format::None) {
    training.fp8 = Fp8Format::E4M3;  // as the usual recipe has it, which is the default (blockwise)
  }
}

}  // namespace

const std::vector<std::string>& search_types() {
  static const std::vector<std::string> types = {"float32", "bfloat16", "float16", "fp8"};
  return types;
}

int search_command(const SearchArguments& arguments, const Console& console) {
  if (const auto other = other_than_scenario(arguments.scenario)) {
    return report_error(console, *other);
  }
  const LoadedScenario loaded = load_scenario(arguments.scenario, arguments.set);
  if (!loaded.ok()) return report_errors(console, loaded.errors);
  const auto invalid = [&](const std::string& message) {
    return report_error(console, {ErrorKind::InvalidSpec, message, std::nullopt});
  };
  if (loaded.points.size() > 1) return invalid("search takes one scenario, and this is a sweep");
  report_warnings(console, loaded.warnings);
  Scenario base = loaded.points.front().scenario;

  const fs::path folder = fs::path(arguments.write).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !fs::is_directory(folder, ignored)) {  // checked before the work begins
    return invalid("--write " + arguments.write + ": there is no folder " + folder.string());
  }
  SpaceOptions options;
  for (const std::string& text : arguments.only) {
    const Result<LayoutConstraints::Only> only = parse_only(text);
    if (!only) return report_error(console, only.error());
    options.constraints.only.push_back(*only);
  }
  options.constraints.keep_schedule = arguments.keep_schedule;
  options.constraints.offload = arguments.offload;
  options.most_memory = Bytes{static_cast<std::int64_t>(arguments.max_memory_gb * 1e9)};
  options.finalists = arguments.finalists;
  if (arguments.objective == "memory") options.objective = Objective::Memory;
  options.exhaustive = arguments.exhaustive;
  options.threads = threads_or_cores(arguments.threads);
  const std::string unit = trained_on(base);
  const bool live = console.live && !arguments.quiet;
  options.progress = [&](const SpaceNews& news) {
    if (!live) return;
    const SpaceCounts& c = news.counts;
    show_status(console, fmt::format("{} layouts, {} estimated, {} simulated", c.layouts,
                                     c.estimated, c.simulated));
  };
  struct Task {
    int nodes, batch;
    std::string type;
  };
  std::vector<int> sizes = arguments.nodes, batches = arguments.batches;
  std::vector<std::string> types = arguments.types;
  if (sizes.empty()) sizes.push_back(base.cluster.nodes);
  if (batches.empty()) batches.push_back(base.global_batch_size());
  if (types.empty()) types.push_back("");
  // One shape for a question, whether the lists in it are of one value or of several.
  const bool several =
      !arguments.nodes.empty() || !arguments.batches.empty() || !arguments.types.empty();
  std::vector<Task> tasks;
  for (const int nodes : sizes) {
    for (const int batch : batches) {
      for (const std::string& type : types) tasks.push_back({nodes, batch, type});
    }
  }
  TimeShares time(arguments.seconds, tasks.size());
  const auto start = Clock::now();
  options.stop = [&] {
    return time.is_over(seconds_since(start)) || (console.cancel && *console.cancel);
  };
  const TrainingSpec own_types = base.training;
  const auto top = to_size(arguments.top);
  TextTable table({"nodes",
                   "batch",
                   unit + "/s",
                   "step time",
                   {"dollars/step", 2},
                   {"kJ/step", 1},
                   Heading::words("layout")},
                  0);
  const Screen screen = console.screen();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::optional<FoundLayout> best;
  std::string best_in_type;
  double most = 0;
  std::optional<Error> failure;
  std::string unfinished;  // searches that ended before they had looked at everything
  for (const auto& [nodes, batch, type] : tasks) {
    const auto begun = Clock::now();
    time.begin_task(seconds_since(start));
    const std::string in_type = type.empty() ? "" : " in " + type;
    base.cluster.nodes = nodes;
    base.training = own_types;
    multiply_in(type, base.training);
    base.training.global_batch_size = batch;
    const Result<SpaceResult> result =
        search_space(base, simulated_layout, simulated_probe, options);
    if (live) show_status(console, "");
    const bool stopped = result ? result->stopped : options.stop();
    if (stopped) {
      unfinished += (unfinished.empty() ? "" : "; ") +
                    fmt::format("{} nodes, batch {}{}", nodes, batch, in_type);
    }
    if (!result) {
      failure = result.error();
      json.push_back({{"nodes", nodes},
                      {"batch", batch},
                      {"seconds", seconds_since(begun)},
                      {"stopped", stopped},
                      {"failure", failure->message}});
      if (!type.empty()) json.back()["dtype"] = type;
      table.add({std::to_string(nodes), std::to_string(batch), "", "", "", "",
                 (type.empty() ? "" : type + ": ") + result.error().message});
      continue;
    }
    const FoundLayout& first = result->found.front();
    const double cost = dollars_of_step(base, first.figures.step_time);
    const double energy = joules_of_step(base, first.figures.step_time);
    table.add({std::to_string(nodes), std::to_string(batch), count_text(first.figures.throughput),
               time_text(first.figures.step_time), amount(cost), amount(energy / 1e3),
               layout_name(first.scenario) + in_type});
    const double own = merit(arguments.objective, base, first.figures, cost, energy);
    if (!best || own > most) {
      best = first;
      best_in_type = in_type;
      most = own;
    }
    SensitivityReport depends;
    const bool asks = arguments.sensitivity && !result->estimated.empty();
    if (asks) {
      Result<SensitivityReport> report = sensitivity(*result, simulated_probe);
      if (!report) return report_error(console, report.error());
      depends = std::move(*report);
    }
    if (arguments.json) {
      json.push_back({{"nodes", nodes},
                      {"batch", batch},
                      {"seconds", seconds_since(begun)},
                      {"stopped", stopped},
                      {"dollars_per_step", known(cost)},
                      {"joules_per_step", known(energy)}});
      json.back().update(space_json(*result, unit));
      if (!type.empty()) json.back()["dtype"] = type;
      if (asks) json.back()["sensitivity"] = sensitivity_json(depends);
      continue;
    }
    std::string likely;
    if (const auto certainty = certainty_of(base.cluster)) {
      likely = fmt::format("; 8 of 10 runs took {:.2f} to {:.2f} of the simulated time",
                           certainty->step_time.least, certainty->step_time.most);
    }
    console.out << wrapped(search_task(base) + in_type +
                               (tasks.size() > 1 ? fmt::format(", {} nodes", nodes) : "") + likely +
                               "\n\n",
                           screen, 2)
                << found_text(*result, unit, top, screen) << "\n";
    if (!result->estimated.empty()) {
      console.out << families_text(*result, top, screen) << "\n"
                  << front_text(*result, top, screen) << "\n";
    }
    if (asks) console.out << sensitivity_text(depends, screen) << "\n";
    console.out << wrapped(certainty_text(*result) + spare_text(*result) +
                               counts_text(*result, seconds_since(begun), arguments.verbose),
                           screen, 2)
                << "\n";
  }
  if (!best) return report_error(console, *failure);
  if (!arguments.write.empty()) {
    const Result<void> written = write_file(arguments.write, layout_file(best->scenario));
    if (!written) return report_error(console, written.error());
  }
  if (arguments.json) {
    console.out << json_text(several ? json : json.front());
  } else if (tasks.size() > 1) {
    console.out << table.text(screen)
                << wrapped(fmt::format("best by {}: {}{} on {} nodes, {} sequences a step\n",
                                       arguments.objective, layout_name(best->scenario),
                                       best_in_type, best->scenario.cluster.nodes,
                                       best->scenario.global_batch_size()),
                           screen, 2);
    if (!unfinished.empty()) {
      console.out << wrapped(
          "not searched to the end (--seconds is shared by all): " + unfinished + "\n", screen, 2);
    }
  }
  return 0;
}

}  // namespace lockstep
