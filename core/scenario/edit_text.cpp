#include "core/scenario/edit_text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/scenario/document.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

/// Keys of which a section has only one: to write the one is to remove the other.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kAlternatives = {{
    {"cluster.preset", "cluster.profile"},
    {"cluster.profile", "cluster.preset"},
    {"model.preset", "model.hf_config"},
    {"model.hf_config", "model.preset"},
}};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The offset of a place; lines and columns count from 1.
std::size_t offset_of(const std::string& text, const SourceSpan& at) {
  std::size_t offset = 0;
  for (int line = 1; line < at.line; ++line) {
    offset = text.find('\n', offset);
    if (offset == std::string::npos) return text.size();
    ++offset;
  }
  return std::min(text.size(), offset + static_cast<std::size_t>(std::max(0, at.column - 1)));
}

/// The end of the TOML value that begins at `begin`: brackets are closed, strings are skipped.
std::size_t value_end(const std::string& text, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::string_view rest = std::string_view(text).substr(i);
      const bool block = rest.starts_with("\"\"\"") || rest.starts_with("'''");
      const std::string quotes(block ? 3 : 1, c);
      std::size_t end = i + quotes.size();
      while (end < text.size() && text.compare(end, quotes.size(), quotes) != 0) {
        end += c == '"' && text[end] == '\\' ? 2 : 1;
      }
      i = end + quotes.size() - 1;
      if (depth == 0) return std::min(i + 1, text.size());
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return i;
      if (--depth == 0) return i + 1;
    } else if (c == '#' && depth > 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (depth == 0 && (c == ',' || c == '#' || c == '\n')) {
      while (i > begin && (text[i - 1] == ' ' || text[i - 1] == '\t' || text[i - 1] == '\r')) --i;
      return i;
    }
  }
  return text.size();
}

const Node* node_at(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (node && !path.empty()) {
    const std::size_t dot = path.find('.');
    node = node->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return node;
}

/// Where a new line of [section] goes: behind its last line that says something. Empty if the text
/// has no such header.
std::optional<std::size_t> end_of_section(const std::string& text, std::string_view section) {
  std::optional<std::size_t> end;
  bool inside = false;
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t next = std::min(text.find('\n', line), text.size() - 1) + 1;
    std::string_view words(text.data() + line, next - line);
    words = trimmed(words.substr(0, words.find_first_of("#\n")));
    if (words.starts_with('[') && words.ends_with(']')) {
      inside = trimmed(words.substr(1, words.size() - 2)) == section;
    }
    if (inside && !words.empty()) end = next;
    line = next;
  }
  return end;
}

void remove_line_of(std::string& text, const Node& node) {
  const std::size_t begin = text.rfind('\n', offset_of(text, node.key_at.span)) + 1;
  const std::size_t end = text.find('\n', value_end(text, offset_of(text, node.at.span)));
  text.erase(begin, std::min(end, text.size() - 1) + 1 - begin);
}

/// The text with one value; empty if the text cannot be read.
std::optional<std::string> with_value(std::string text, const std::string& path,
                                      const std::string& value) {
  for (const auto& [own, other] : kAlternatives) {
    if (path != own) continue;
    const Result<Node> root = parse_document(text, {});
    const Node* alternative = root ? node_at(*root, other) : nullptr;
    if (alternative) remove_line_of(text, *alternative);
  }
  const Result<Node> root = parse_document(text, {});
  if (!root) return std::nullopt;
  if (const Node* node = node_at(*root, path); node && !node->is_table()) {
    const std::size_t begin = offset_of(text, node->at.span);
    return text.replace(begin, value_end(text, begin) - begin, value);
  }
  const std::size_t dot = path.rfind('.');
  const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string line = path.substr(dot + 1) + " = " + value + "\n";
  if (!text.empty() && text.back() != '\n') text += '\n';
  if (const auto end = end_of_section(text, section)) return text.insert(*end, line);
  return text + "\n[" + section + "]\n" + line;
}

bool same_scenarios(const LoadedScenario& a, const LoadedScenario& b) {
  return a.ok() && b.ok() &&
         std::equal(
             a.points.begin(), a.points.end(), b.points.begin(), b.points.end(),
             [](const SweepPoint& x, const SweepPoint& y) { return x.scenario == y.scenario; });
}

}  // namespace

Result<std::string> with_overrides(const std::string& text, const std::string& file,
                                   const std::vector<std::string>& overrides) {
  const LoadedScenario meant = parse_scenario(text, file, overrides);
  if (!meant.ok()) return meant.errors.front();
  std::string written = text;
  for (auto entry = overrides.begin(); entry != overrides.end(); ++entry) {
    const std::string path(trimmed(entry->substr(0, entry->find('='))));
    const std::string raw(trimmed(entry->substr(entry->find('=') + 1)));
    const std::vector<std::string> rest(entry + 1, overrides.end());
    bool done = false;
    for (const std::string& value : {raw, quote(raw)}) {  // a bare word needs quotes
      const std::optional<std::string> tried = with_value(written, path, value);
      if (!tried || !same_scenarios(parse_scenario(*tried, file, rest), meant)) continue;
      written = *tried;
      done = true;
      break;
    }
    if (done) continue;
    return Error{ErrorKind::InvalidSpec,
                 *entry + " cannot be written into the text: change it in the text itself",
                 SourceSpan{file, 0, 0}};
  }
  return written;
}

Result<std::vector<std::string>> overrides_for(const std::string& text, const std::string& file,
                                               const Scenario& wanted) {
  std::vector<std::string> overrides;
  // A value that a text leaves out may follow from others, so that a key that was equal differs
  // once these are overridden: what still differs then is overridden, too.
  for (int round = 0; round < 6; ++round) {
    const LoadedScenario loaded = parse_scenario(text, file, overrides);
    if (!loaded.ok()) return loaded.errors.front();
    if (loaded.points.size() > 1) break;
    std::vector<std::string> more = differences(loaded.points.front().scenario, wanted);
    if (more.empty()) return overrides;
    // Another layout may mean another framework, whose preset has the other keys of its section.
    const auto preset = std::find_if(more.begin(), more.end(), [](const std::string& entry) {
      return entry.starts_with("framework.preset=");
    });
    if (preset != more.end()) more = {*preset};
    overrides.insert(overrides.end(), more.begin(), more.end());
  }
  return Error{ErrorKind::Unsupported, file + ": no overrides make it the scenario wanted", {}};
}

}  // namespace lockstep
