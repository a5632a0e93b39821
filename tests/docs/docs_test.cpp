// Tests the documents: links lead somewhere, and the glossary has the terms that a report prints.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;

/// The anchor of a heading, as GitHub makes it: lower case, spaces to hyphens, no punctuation.
std::string slug(const std::string& heading) {
  std::string text;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || byte >= 0x80) {
      text += static_cast<char>(std::tolower(byte));
    } else if (c == ' ') {
      text += '-';
    }
  }
  return text;
}

/// The lines of a document that are not in blocks of code.
std::vector<std::string> prose(const fs::path& document) {
  std::istringstream text(read_bytes(document.string()));
  std::vector<std::string> lines;
  bool code = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) code = !code;
    if (!code) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> headings(const fs::path& document) {
  std::vector<std::string> found;
  for (const std::string& line : prose(document)) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') continue;
    found.push_back(line.substr(level + 1));
  }
  return found;
}

/// "document: target" of links to files or headings that do not exist.
std::vector<std::string> broken_links(const std::vector<fs::path>& documents) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  std::vector<std::string> broken;
  for (const fs::path& document : documents) {
    for (const std::string& line : prose(document)) {
      for (std::sregex_iterator at(line.begin(), line.end(), link), end; at != end; ++at) {
        const std::string target = (*at)[1];
        if (target.find("://") != std::string::npos) continue;
        const std::size_t hash = target.find('#');
        const std::string file = target.substr(0, hash);
        const fs::path there = file.empty() ? document : document.parent_path() / file;
        bool exists = fs::exists(there);
        if (exists && hash != std::string::npos) {
          const std::vector<std::string> known = headings(there);
          exists = std::any_of(known.begin(), known.end(), [&](const std::string& heading) {
            return slug(heading) == target.substr(hash + 1);
          });
        }
        if (!exists) broken.push_back(document.filename().string() + ": " + target);
      }
    }
  }
  return broken;
}

std::vector<fs::path> documents() {
  const fs::path root = LOCKSTEP_SOURCE_DIR;
  std::vector<fs::path> found;
  for (const char* name : {".", "docs", "docs/lessons", "docs/scenario", "docs/schedules"}) {
    const fs::path folder = (root / name).lexically_normal();
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  return found;
}

std::vector<std::string> terms() {
  std::vector<std::string> found = headings(fs::path(LOCKSTEP_SOURCE_DIR) / "docs/glossary.md");
  found.erase(found.begin());  // the title
  return found;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The cells of a line, which are separated by two or more spaces.
std::vector<std::string> cells(const std::string& line) {
  static const std::regex cell(R"(\S+( \S+)*)");
  std::vector<std::string> found;
  for (std::sregex_iterator at(line.begin(), line.end(), cell), end; at != end; ++at) {
    found.push_back(at->str());
  }
  return found;
}

TEST_CASE("every link between the documents leads to a file and a heading", "[docs]") {
  const std::vector<fs::path> all = documents();
  REQUIRE(all.size() > 10);
  CHECK(broken_links(all) == std::vector<std::string>{});
}

TEST_CASE("a link to a missing file or heading is found", "[docs]") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.md",
              "# A b-c, d\n[fine](#a-b-c-d) [fine](b.md) [web](https://x.y/z)\n"
              "[file](c.md) [heading](b.md#nothing)\n```\n[code](d.md)\n```\n");
  write_bytes(folder / "b.md", "# B\n");
  CHECK(broken_links({fs::path(folder / "a.md")}) ==
        std::vector<std::string>{"a.md: c.md", "a.md: b.md#nothing"});
}

TEST_CASE("the tests that the documents name are there", "[docs]") {
  static const std::regex name(R"re(TEST_CASE\(\s*"([^"]*)")re"), cell(R"(`([^`]* [^`]*)`)");
  std::set<std::string> tests;
  for (const auto& entry : fs::recursive_directory_iterator(LOCKSTEP_SOURCE_DIR "/tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read_bytes(entry.path().string());
    for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) {
      tests.insert((*at)[1]);
    }
  }
  int named = 0;
  bool within = false;
  for (const std::string& line : prose(LOCKSTEP_SOURCE_DIR "/docs/overnight.md")) {
    if (line.starts_with("#")) within = line.ends_with("the tests that watch for them");
    if (!within || !line.starts_with("| ")) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), cell), end; at != end; ++at, ++named) {
      INFO((*at)[1]);
      CHECK(tests.contains((*at)[1]));
    }
  }
  CHECK(named > 20);
}

TEST_CASE("the glossary is in alphabetical order, each term once", "[docs]") {
  std::vector<std::string> given;
  for (const std::string& term : terms()) given.push_back(lower(term));
  REQUIRE(given.size() > 80);
  CHECK(std::is_sorted(given.begin(), given.end()));
  CHECK(std::adjacent_find(given.begin(), given.end()) == given.end());
}

TEST_CASE("the glossary has what the report of a pipeline prints", "[docs]") {
  const auto run = lockstep::test::lockstep(
      {"run", LOCKSTEP_SOURCE_DIR "/scenarios/tiny/gpt2-fsdp2-1f1b2.toml", "--wide"});
  REQUIRE(run.exit_code == 0);
  std::istringstream lines(run.out);
  std::set<std::string> printed;
  int block = 0;
  bool head = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      ++block;
      head = true;
      continue;
    }
    const std::vector<std::string> in_line = cells(line);
    if (block == 0) printed.insert(in_line.front());
    if (block > 0 && block < 3 && head) printed.insert(in_line.begin(), in_line.end());
    head = false;
  }
  REQUIRE(printed.count("exposed comm") == 1);
  REQUIRE(printed.count("in flight") == 1);
  for (const char* plain : {"sent", "op kind", "count", "time", "mean", "ranks"}) {
    printed.erase(plain);  // words of the language
  }
  std::set<std::string> known;
  for (const std::string& term : terms()) known.insert(lower(term));
  for (const std::string& term : printed) {
    INFO(term);
    CHECK(known.count(lower(term)) == 1);
  }
}

}  // namespace
