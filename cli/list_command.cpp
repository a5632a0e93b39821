// lockstep list: the names that scenarios and commands take, with what stands behind each.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "backends/backends.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/base/read_file.hpp"
#include "core/format/format.hpp"
#include "core/format/table.hpp"
#include "core/scenario/lists.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/scenario/shipped.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {
namespace {

using Row = nlohmann::ordered_json;  // an object: a name for each column
using Rows = std::vector<Row>;

Rows schedules() {
  Rows rows;
  for (const ScheduleRules& rules : kSchedules) {
    const int least = rules.least_virtual_stages, most = rules.most_virtual_stages;
    const auto per_rank = [&](int chunks) { return std::to_string(chunks); };
    const std::string microbatches =
        rules.least.per_rank == 0
            ? std::to_string(rules.least.more)
            : (rules.least.per_rank == 1 ? "" : std::to_string(rules.least.per_rank) + " ") + "p" +
                  (rules.least.more == 0  ? ""
                   : rules.least.more > 0 ? " + " + std::to_string(rules.least.more)
                                          : " - " + std::to_string(-rules.least.more));
    rows.push_back(
        {{"schedule", rules.name},
         {"chunks of a rank",
          least == most ? per_rank(least) : per_rank(least) + " to " + per_rank(most)},
         {"placed", rules.placement == Placement::V ? "V" : "loop"},
         {"microbatches at least", microbatches},
         {"weights", rules.versions == WeightVersions::One       ? "one version"
                     : rules.versions == WeightVersions::Stashed ? "stashed by microbatch"
                                                                 : "two versions"}});
  }
  return rows;
}

Rows scenarios() {
  Rows rows;
  const auto folder = shipped_scenarios();
  for (const auto& file : scenario_files(folder)) {
    std::ifstream stream = open_file((folder / file).string());
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    rows.push_back({{"scenario",
                     (folder / file).lexically_proximate(std::filesystem::current_path()).string()},
                    {"what it shows", opening_words(text)}});
  }
  return rows;
}

/// Columns of text are on the left.
std::string table_of(const Rows& rows, const Screen& screen) {
  std::vector<Heading> columns;
  int goes = static_cast<int>(rows.front().size());
  for (const auto& [name, first] : rows.front().items()) {
    const bool words = std::any_of(rows.begin(), rows.end(), [&, key = name](const Row& row) {
      return row.value(key, Row()).is_string();
    });
    columns.push_back(words ? Heading::words(name) : Heading(name, --goes));
  }
  columns.back().brief = rows.front().size() == 2;
  TextTable table(columns);
  for (const Row& row : rows) {
    std::vector<std::string> cells;
    for (const Heading& column : columns) {
      const Row value = row.value(column.text, Row());
      cells.push_back(value.is_null()     ? ""
                      : value.is_string() ? value.get<std::string>()
                                          : count_text(value.get<double>()));
    }
    table.add(std::move(cells));
  }
  return table.text(screen);
}

/// What each list is of, for who names none.
Rows lists() {
  const std::array<std::pair<const char*, std::size_t>, 7> all = {
      {{"models", model_preset_names().size()},
       {"clusters", cluster_preset_names().size()},
       {"schedules", std::size(kSchedules)},
       {"scenarios", scenario_files(shipped_scenarios()).size()},
       {"frameworks", framework_preset_names().size()},
       {"backends", backend_names().size()},
       {"keys", scenario_keys().size()}}};
  Rows rows;
  for (const auto& [name, size] : all) {
    rows.push_back(
        {{"list", name}, {"entries", size}, {"command", "lockstep list " + std::string(name)}});
  }
  return rows;
}

}  // namespace

int list_command(const ListArguments& arguments, const Console& console) {
  Rows rows;
  if (arguments.what.empty()) rows = lists();
  if (arguments.what == "models") rows = list_models();
  if (arguments.what == "clusters") rows = list_clusters();
  if (arguments.what == "schedules") rows = schedules();
  if (arguments.what == "scenarios") rows = scenarios();
  if (arguments.what == "frameworks") {
    for (const EmbeddedProfile& preset : embedded_frameworks()) {
      rows.push_back({{"framework", preset.name}, {"what it is", opening_words(preset.text)}});
    }
  }
  if (arguments.what == "backends") {
    for (const std::string& name : backend_names()) rows.push_back({{"backend", name}});
  }
  if (arguments.what == "keys") {
    for (const ScenarioKey& key : scenario_keys()) {
      rows.push_back({{"key", key.name}, {"default", key.value}});
    }
  }
  if (arguments.json) {
    console.out << json_text(rows);
  } else if (rows.empty()) {
    return report_error(console,
                        invalid("no shipped scenarios beside this executable or above this folder: "
                                "run it in a clone of the repository, or install it"));
  } else {
    console.out << table_of(rows, console.screen());
  }
  return 0;
}

}  // namespace lockstep
