#include "core/scenario/key_list.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "core/scenario/presets.hpp"
#include "core/scenario/writer.hpp"

namespace lockstep {
namespace {

/// Markdown's links and code as plain text: "[below](#parts)" is "below".
std::string plain(std::string_view markdown) {
  std::string text;
  for (std::size_t i = 0; i < markdown.size(); ++i) {
    const std::size_t link = markdown[i] == ']' ? markdown.find(')', i) : std::string_view::npos;
    if (markdown.substr(i).starts_with("](") && link != std::string_view::npos) {
      const std::size_t open = text.rfind('[');
      if (open != std::string::npos) text.erase(open, 1);
      i = link;
    } else if (markdown[i] != '`') {
      text += markdown[i];
    }
  }
  return text;
}

/// The words of a line that lie between two marks: names in code, or sections in brackets.
std::vector<std::string> between(std::string_view line, std::string_view open, char close) {
  std::vector<std::string> found;
  for (std::size_t at = line.find(open); at != std::string_view::npos; at = line.find(open, at)) {
    at += open.size();
    const std::size_t end = line.find(close, at);
    if (end == std::string_view::npos) break;
    found.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

/// What the pages of docs/scenario say of keys: of each table, the last cell of the row that names
/// the key. A line that names sections, "# [lora]" or "`[cluster.device]`, ...", stands above it.
KeyValues read_meanings() {
  KeyValues meanings;
  for (const EmbeddedProfile& page : embedded_key_pages()) {
    std::istringstream lines{std::string(page.text)};
    std::vector<std::string> sections;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# [")) sections = between(line, "[", ']');
      if (line.starts_with("`[")) sections = between(line, "`[", ']');
      for (std::string& section : sections) {
        if (section.starts_with('[')) section.erase(0, 1);  // a list of tables
      }
      const std::size_t names = line.find(" | "), last = line.rfind(" | ");
      if (!line.starts_with("| `") || last == std::string::npos || !line.ends_with(" |")) continue;
      const std::string meaning = plain(line.substr(last + 3, line.size() - last - 5));
      for (const std::string& name : between(line.substr(0, names), "`", '`')) {
        for (const std::string& section : sections) meanings.emplace(section + "." + name, meaning);
      }
    }
  }
  return meanings;
}

template <class T>
struct Inner {
  using type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using type = T;
};

class KeyLister {
 public:
  template <class Spec>
  void section(const char* name, const Spec& spec, bool /*printed*/) {
    // Keys that say where a section comes from are resolved before the others are read.
    if constexpr (std::is_same_v<Spec, ModelSpec>) {
      list.push_back({"model.preset"});
      list.push_back({"model.hf_config"});
    } else if constexpr (std::is_same_v<Spec, ClusterSpec>) {
      list.push_back({"cluster.preset"});
      list.push_back({"cluster.profile"});
    } else if constexpr (std::is_same_v<Spec, FrameworkSpec>) {
      list.push_back({"framework.preset", quote(spec.preset)});
      list.push_back({"framework.profile"});
    }
    table(name, spec);
  }
  template <class T>
  void key(const char* name, const T& member, const Range& range = {}) {
    key(name, member, UnitPrefix::One, range);
  }
  template <class T>
  void key(const char* name, const T& member, UnitPrefix prefix, const Range& range = {}) {
    Writer writer("");
    constexpr bool kCounts = std::is_integral_v<T>;  // in no unit
    if constexpr (!kCounts && requires { writer.field(name, member, prefix); }) {
      writer.field(name, member, prefix);
    } else {
      writer.field(name, member);
    }
    std::string value = writer.text();
    if (!value.empty()) value = value.substr(value.find(" = ") + 3);
    while (value.ends_with('\n')) value.pop_back();
    std::string values(range.text());
    if constexpr (std::is_enum_v<typename Inner<T>::type>) {
      for (const auto& [choice, e] : choices(typename Inner<T>::type{})) {
        values += (values.empty() ? "" : ", ") + std::string(choice);
      }
    }
    list.push_back({path_ + name, value, values, whose_});
  }
  void only(const Whose& whose) { whose_ = &whose == &kAll ? "" : whose.what; }
  template <class T>
  void table(const char* name, const T& spec) {
    const std::string outer = path_;
    path_ += std::string(name) + ".";
    whose_.clear();
    describe(*this, spec);
    path_ = outer;
  }
  template <class T>
  void tables(const char* name, const T&) {
    list.push_back({path_ + name, "[]"});
  }
  std::vector<ScenarioKey> list;

 private:
  std::string path_, whose_;
};

}  // namespace

const std::vector<ScenarioKey>& scenario_keys() {
  static const std::vector<ScenarioKey> keys = [] {
    Scenario usual;
    usual.costs.emplace();
    KeyLister lister;
    describe_sections(lister, std::as_const(usual));
    const KeyValues meanings = read_meanings();
    for (ScenarioKey& key : lister.list) {
      const auto found = meanings.find(key.name);
      if (found != meanings.end()) key.meaning = found->second;
    }
    return std::move(lister.list);
  }();
  return keys;
}

const ScenarioKey* find_key(std::string_view name) {
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

KeyValues values_of_keys(const Scenario& scenario) {
  KeyLister lister;
  describe_sections(lister, scenario);
  KeyValues values;
  for (ScenarioKey& key : lister.list) {
    if (!key.value.empty()) values.emplace(key.name, std::move(key.value));
  }
  return values;
}

std::string section_of_key(std::string_view key) {
  std::string found;
  int count = 0;
  for (const ScenarioKey& known : scenario_keys()) {
    const std::size_t dot = known.name.rfind('.');
    const std::string section = known.name.substr(0, dot);
    // Their keys have the names of other sections' keys, which are meant more often.
    if (section == "framework" || section == "validation") continue;
    if (known.name.compare(dot + 1, std::string::npos, key) == 0) found = section, ++count;
  }
  return count == 1 ? found : std::string();
}

}  // namespace lockstep
