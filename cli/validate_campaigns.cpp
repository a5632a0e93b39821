#include "cli/validate_campaigns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "cli/campaign_step.hpp"
#include "cli/json_text.hpp"
#include "core/advice/recommend.hpp"
#include "core/base/thread_team.hpp"
#include "core/campaign/anchors.hpp"
#include "core/format/format.hpp"
#include "core/plan/best_first.hpp"
#include "core/session/simulation.hpp"
#include "core/validation/statistics.hpp"

namespace lockstep {
namespace {

constexpr int kRuns = 100;
constexpr double kLongestSearch = 60;  // seconds

/// The fastest layout that leaves as much memory free as published runs need beside what is
/// simulated.
Result<Scenario> fastest_layout(const Scenario& scenario, int threads) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  SpaceOptions options;
  options.threads = threads_or_cores(threads);
  options.settings = false;
  options.stop = [start] {
    return std::chrono::duration<double>(Clock::now() - start).count() > kLongestSearch;
  };
  const auto memory = static_cast<double>(scenario.cluster.device.memory.v);
  options.most_memory = {std::llround(memory / (1 + kMeasuredMemoryOver))};
  const Result<SpaceResult> found =
      search_space(scenario, simulated_layout, simulated_probe, options);
  if (!found) return found.error();
  if (found->found.empty()) return invalid("no layout was found within a minute");
  Scenario best = found->found.front().scenario;
  best.campaign = scenario.campaign;
  return best;
}

/// The median of the errors without their sign; nullopt if there are none.
std::optional<double> median_error(const std::vector<AnchoredCampaign>& rows, bool with_layout) {
  std::vector<double> errors;
  for (const AnchoredCampaign& row : rows) {
    if (row.error() && row.row.has_layout() == with_layout) {
      errors.push_back(std::abs(*row.error()));
    }
  }
  if (errors.empty()) return std::nullopt;
  return percentile(errors, 0.5);
}

std::string text_of(const std::vector<AnchoredCampaign>& rows, const Screen& screen) {
  TextTable table({"campaign",
                   "published GPU hours",
                   "simulated",
                   "error",
                   {"goodput", 2},
                   Heading::words("layout", 1)});
  for (const AnchoredCampaign& row : rows) {
    const std::string layout = row.row.has_layout() ? "given: " : "searched: ";
    table.add({row.row.id, count_text(*row.row.gpu_hours),
               row.gpu_hours ? count_text(*row.gpu_hours) : "-",
               row.error() ? change_text(*row.row.gpu_hours, *row.gpu_hours) : "-",
               row.gpu_hours ? percent_text(row.goodput) : "-",
               row.fault ? *row.fault : layout + row.layout});
  }
  std::string text = table.text(screen);
  for (const bool given : {true, false}) {
    if (const std::optional<double> median = median_error(rows, given)) {
      text += fmt::format("median error where the layout is {}: {}\n", given ? "given" : "searched",
                          percent_text(*median));
    }
  }
  return text;
}

nlohmann::ordered_json json_of(const std::vector<AnchoredCampaign>& rows) {
  using Json = nlohmann::ordered_json;
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json list = Json::array();
  for (const AnchoredCampaign& row : rows) {
    list.push_back({{"id", row.row.id},
                    {"source", row.row.source},
                    {"published_gpu_hours", optional(row.row.gpu_hours)},
                    {"simulated_gpu_hours", optional(row.gpu_hours)},
                    {"error", optional(row.error())},
                    {"goodput", row.goodput},
                    {"layout_given", row.row.has_layout()},
                    {"layout", row.layout},
                    {"fault", optional(row.fault)}});
  }
  return {{"median_error_layout_given", optional(median_error(rows, true))},
          {"median_error_layout_searched", optional(median_error(rows, false))},
          {"rows", list}};
}

}  // namespace

int validate_campaigns(const ValidateArguments& arguments, const CsvTable& table,
                       const Console& console) {
  CampaignRows read = read_campaign_rows(table);
  if (!read.errors.empty()) return report_errors(console, read.errors);
  if (!arguments.row.empty()) {
    std::erase_if(read.rows, [&](const CampaignRow& row) { return row.id != arguments.row; });
    if (read.rows.empty()) {
      return report_error(console,
                          invalid("no row of " + table.file + " is '" + arguments.row + "'"));
    }
  }
  const std::string directory = std::filesystem::path(table.file).parent_path().string();
  const AnchorTools tools{
      [&](const Scenario& scenario) { return fastest_layout(scenario, arguments.threads); },
      layout_name, simulated_facts};
  std::vector<AnchoredCampaign> rows;
  for (const CampaignRow& row : read.rows) {
    if (console.live && !arguments.quiet) {
      show_status(console, fmt::format("{} of {}: {}", rows.size() + 1, read.rows.size(), row.id));
    }
    rows.push_back(anchor_campaign(row, directory, tools, kRuns));
  }
  if (console.live && !arguments.quiet) show_status(console, "");
  console.out << (arguments.json ? json_text(json_of(rows)) : text_of(rows, console.screen()));
  return 0;
}

}  // namespace lockstep
