// The pages that explain keys: all keys, with the defaults that they have.
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/scenario/key_list.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + at.size();
  }
  return parts;
}

/// A value as both the pages and TOML may write it.
std::string plain(std::string text) {
  std::erase_if(text, [](char c) { return c == '`' || c == '"'; });
  const std::string minus = "\u2212";
  if (text.starts_with(minus)) text = "-" + text.substr(minus.size());
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? text : std::to_string(value * 1e12);
}

/// Whether a page's default is a value, not words about it.
bool is_value(const std::string& cell, const ScenarioKey& key) {
  const std::vector<std::string> names = split(key.values, ", ");
  const std::string text = plain(cell);
  return text == "true" || text == "false" || text.ends_with(".000000") ||
         std::find(names.begin(), names.end(), text) != names.end();
}

TEST_CASE("every key is explained in docs/scenario or docs/framework.md", "[docs]") {
  for (const ScenarioKey& key : scenario_keys()) {
    INFO(key.name);
    CHECK_FALSE(key.meaning.empty());
    CHECK(key.meaning.find_first_of("`]") == key.meaning.find(']'));  // no marks of Markdown
  }
}

TEST_CASE("the pages of keys say the defaults that the keys have", "[docs]") {
  static const std::regex row(R"(\| (`[a-z_0-9`, ]+`) \| ([^|]+) \| .* \|)");
  const std::filesystem::path docs = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "docs";
  std::vector<std::filesystem::path> pages = {docs / "framework.md"};
  for (const auto& entry : std::filesystem::directory_iterator(docs / "scenario")) {
    pages.push_back(entry.path());
  }
  int compared = 0;
  for (const auto& page : pages) {
    std::istringstream lines(read_bytes(page.string()));
    std::string section = page.stem().string();
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("`[") && line.find(']') != std::string::npos) {
        section = line.substr(2, line.find(']') - 2);
      }
      std::smatch cells;
      if (!std::regex_match(line, cells, row)) continue;
      const std::vector<std::string> names = split(plain(cells[1]), ", ");
      const std::vector<std::string> defaults = split(cells[2], ", ");
      if (names.size() != defaults.size()) continue;
      for (std::size_t i = 0; i < names.size(); ++i) {
        const ScenarioKey* key = find_key(section + "." + names[i]);
        if (key == nullptr || key->value.empty() || !is_value(defaults[i], *key)) continue;
        INFO(key->name << " is " << key->value << ", the page says " << defaults[i]);
        CHECK(plain(defaults[i]) == plain(key->value));
        ++compared;
      }
    }
  }
  CHECK(compared > 150);
}

}  // namespace
}  // namespace lockstep
