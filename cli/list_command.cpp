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
#include "core/scenario/key_list.hpp"
#include "core/scenario/lists.hpp"
#include "core/scenario/presets.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/scenario/shipped.hpp"
#include "core/schedule/schedules.hpp"
#include "core/spec/foreign_names.hpp"

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
  columns.back().brief = rows.front().size() <= 3;
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

/// Those that are called `words`; otherwise those in whose name or meaning they are.
std::vector<ScenarioKey> keys_that_match(const std::string& words) {
  std::vector<ScenarioKey> named, found;
  for (const ScenarioKey& key : scenario_keys()) {
    const bool in_name = key.name.find(words) != std::string::npos;
    if (key.name == words || key.name.ends_with("." + words)) named.push_back(key);
    if (in_name || key.meaning.find(words) != std::string::npos) found.push_back(key);
  }
  return named.empty() ? found : named;
}

/// What other trainers call it: "Megatron-LM's tensor-model-parallel-size".
std::string elsewhere(const std::string& key) {
  std::vector<std::string> names;
  for (const Trainer trainer :
       {Trainer::Torchtitan, Trainer::Megatron, Trainer::DeepSpeed, Trainer::Peft}) {
    const std::string_view name = name_for(trainer, key);
    if (name.empty()) continue;
    names.push_back(std::string(spoken_name(trainer)) + "'s " + std::string(name));
  }
  return joined(names);
}

Row row_of(const ScenarioKey& key, bool everything) {
  Row row = {{"key", key.name}, {"default", key.value}};
  if (everything) {
    row["values"] = key.values;
    row["applies_to"] = key.whose;
    row["elsewhere"] = elsewhere(key.name);
  }
  row["meaning"] = key.meaning;
  return row;
}

std::string explanation(const std::vector<ScenarioKey>& keys, const Screen& screen) {
  std::string text;
  for (const ScenarioKey& key : keys) {
    text += text.empty() ? "" : "\n";
    text += emphasized(key.name, Emphasis::kName, screen) +
            (key.value.empty() ? "" : " = " + key.value) + "\n";
    for (const auto& [title, words] : {std::pair<const char*, std::string>{"", key.meaning},
                                       {"values: ", key.values},
                                       {"applies to: ", key.whose},
                                       {"elsewhere: ", elsewhere(key.name)}}) {
      if (!words.empty()) text += wrapped("  " + (title + words), screen, 2) + "\n";
    }
  }
  return text;
}

}  // namespace

int list_command(const ListArguments& arguments, const Console& console) {
  Rows rows;
  if (!arguments.matches.empty() && arguments.what != "keys") {
    return report_error(console, invalid("'" + arguments.matches +
                                         "': only keys are looked for by a word: `lockstep list "
                                         "keys " +
                                         arguments.matches + "`"));
  }
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
    const std::vector<ScenarioKey> keys = keys_that_match(arguments.matches);
    if (keys.empty()) {
      return report_error(console, invalid("no key has '" + arguments.matches +
                                           "' in its name or meaning: `lockstep list keys` "
                                           "prints all"));
    }
    if (!arguments.matches.empty() && !arguments.json) {
      console.out << explanation(keys, console.screen());
      return 0;
    }
    for (const ScenarioKey& key : keys) rows.push_back(row_of(key, arguments.json));
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
