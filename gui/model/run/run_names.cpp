#include "gui/model/run/run_names.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "core/format/format.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep::gui {
namespace {

constexpr std::size_t kMostKeys = 2;  // that a name tells

/// The values of a resolved scenario, by "section.key".
std::map<std::string, std::string> values_of(const Scenario& scenario) {
  std::map<std::string, std::string> values;
  std::istringstream text(print_scenario(scenario));
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with('[')) section = line;
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    std::string value = line.substr(equals + 3);
    std::erase(value, '"');
    values[section + line.substr(0, equals)] = std::move(value);
  }
  return values;
}

std::string key_name(const std::string& path) { return path.substr(path.find(']') + 1); }

/// What distinguishes runs of one title; the texts are not necessarily all different.
std::vector<std::string> differing_keys(const std::vector<RunPtr>& runs) {
  std::vector<std::map<std::string, std::string>> values;
  std::set<std::string> keys;
  for (const RunPtr& run : runs) {
    if (!run->scenario) return {};
    for (const auto& [key, value] : values.emplace_back(values_of(*run->scenario))) {
      keys.insert(key);
    }
  }
  std::vector<std::vector<std::string>> words(runs.size());
  for (const std::string& key : keys) {
    const auto differs = [&](auto& other) { return other[key] != values.front()[key]; };
    if (std::none_of(values.begin(), values.end(), differs)) continue;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::string& value = values[i][key];
      words[i].push_back(key_name(key) + " " + (value.empty() ? "–" : value));
    }
    if (words.front().size() == kMostKeys) break;
  }
  std::vector<std::string> texts;
  for (const auto& of_run : words) texts.push_back(joined(of_run));
  return texts;
}

std::vector<std::string> folders(const std::vector<RunPtr>& runs) {
  std::vector<std::string> texts;
  for (const RunPtr& run : runs) {
    const std::filesystem::path path(run->path);
    texts.push_back(
        "in " +
        (path.has_filename() ? path : path.parent_path()).parent_path().filename().string());
  }
  return texts;
}

bool all_differ(const std::vector<std::string>& texts, std::size_t count) {
  return texts.size() == count && std::set(texts.begin(), texts.end()).size() == count;
}

std::vector<std::string> remarks_on(const std::vector<RunPtr>& runs) {
  for (auto* words : {&differing_keys, &folders}) {
    std::vector<std::string> texts = (*words)(runs);
    if (all_differ(texts, runs.size())) return texts;
  }
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < runs.size(); ++i) numbers.push_back("no. " + std::to_string(i + 1));
  return numbers;
}

}  // namespace

std::vector<std::string> distinct_names(const std::vector<RunPtr>& runs) {
  std::map<std::string, std::vector<std::size_t>> by_title;
  for (std::size_t i = 0; i < runs.size(); ++i) by_title[runs[i]->title].push_back(i);
  std::vector<std::string> names(runs.size());
  for (const auto& [title, places] : by_title) {
    std::vector<RunPtr> same;
    for (const std::size_t i : places) same.push_back(runs[i]);
    const std::vector<std::string> remarks =
        same.size() > 1 ? remarks_on(same) : std::vector<std::string>{""};
    for (std::size_t k = 0; k < places.size(); ++k) {
      names[places[k]] = title + (remarks[k].empty() ? "" : ": " + remarks[k]);
    }
  }
  return names;
}

}  // namespace lockstep::gui
