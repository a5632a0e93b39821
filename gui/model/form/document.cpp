#include "gui/model/form/document.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/base/read_file.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/edit_text.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/scenario/shipped.hpp"
#include "gui/model/form/schedule_file.hpp"

namespace lockstep::gui {
namespace {

void take_override(std::vector<std::string>& overrides, const std::string& key) {
  std::erase_if(overrides, [&](const std::string& entry) { return entry.starts_with(key + "="); });
}

/// A word of a command line, in quotes if a shell would read it otherwise.
std::string shell_word(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=:,+@%").find(char(c)) != std::string_view::npos;
  });
  if (plain && !text.empty()) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

void put_override(std::vector<std::string>& overrides, const std::string& entry) {
  take_override(overrides, entry.substr(0, entry.find('=')));
  overrides.push_back(entry);
}

Result<void> EditedDocument::open(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  const bool schedule = path.ends_with(".csv");
  std::string saved = schedule ? "" : *text;
  if (schedule) text = scenario_of_schedule(*text, path);
  if (!text) return text.error();
  saved_ = {std::move(saved), {}};
  path_ = schedule ? "" : path;
  is_open_ = true;
  history_ = History<Document>({std::move(*text), {}});
  return {};
}

void EditedDocument::begin(const std::string& path, Document document) {
  saved_ = {};
  path_ = path;
  is_open_ = true;
  history_ = History<Document>(std::move(document));
}

bool EditedDocument::has_own_file() const {
  return std::filesystem::exists(path_) && !is_shipped(path_);
}

Result<std::string> EditedDocument::command() const {
  const Error unsaved{ErrorKind::InvalidSpec, "save the scenario first: no command says it", {}};
  if (!std::filesystem::exists(path_)) return unsaved;
  std::vector<std::string> overrides = now().overrides;
  if (now().text != saved_.text) {
    const LoadedScenario loaded = parse_scenario(now().text, path_, overrides);
    if (!loaded.ok()) return loaded.errors.front();
    if (loaded.points.size() > 1) return unsaved;
    auto found = overrides_for(saved_.text, path_, loaded.points.front().scenario);
    if (!found) return unsaved;
    overrides = std::move(*found);
  }
  std::string command = "lockstep run " + shell_word(path_);
  for (const std::string& entry : overrides) command += " --set " + shell_word(entry);
  return command;
}

Result<void> EditedDocument::save(const std::string& path) {
  if (is_shipped(path)) {
    return Error{ErrorKind::InvalidSpec,
                 path + " came with Lockstep and is not overwritten: save under another name",
                 {}};
  }
  Result<std::string> text = now().text;
  if (!now().overrides.empty()) text = with_overrides(now().text, file_name(), now().overrides);
  if (!text) return text.error();
  if (auto written = write_file(path, *text); !written) return written;
  path_ = path;
  saved_ = {std::move(*text), {}};
  history_.change(saved_);
  return {};
}

bool EditedDocument::is_changed_elsewhere() const {
  if (!has_own_file()) return false;
  const Result<std::string> text = read_file(path_);
  return text && *text != saved_.text;
}

bool EditedDocument::reread() {
  if (is_modified() || path_.empty()) return false;
  Result<std::string> text = read_file(path_);
  if (!text || *text == saved_.text) return false;
  saved_ = {std::move(*text), {}};
  return history_.change(saved_);
}

std::optional<Unsaved> EditedDocument::unsaved() const {
  if (!is_modified()) return std::nullopt;
  return Unsaved{path_, saved_.text, now()};
}

void EditedDocument::restore(const Unsaved& unsaved) {
  is_open_ = true;
  path_ = unsaved.path;
  saved_ = {unsaved.saved, {}};
  history_ = History<Document>(path_.empty() ? unsaved.now : saved_);
  history_.change(unsaved.now);
}

bool EditedDocument::edit(Document document, const std::string& merge) {
  is_open_ = true;
  return history_.change(std::move(document), merge);
}

bool EditedDocument::set_override(const std::string& key, const std::optional<std::string>& value) {
  Document next = now();
  take_override(next.overrides, key);
  if (value) next.overrides.push_back(key + "=" + *value);
  return edit(std::move(next), key);
}

}  // namespace lockstep::gui
