// Page commands: what a page tells its reader to type.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::test {

/// The lines of a page that are in blocks of code of this language.
inline std::vector<std::string> lines_in_blocks(const std::string& page,
                                                const std::string& language) {
  std::istringstream text(page);
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = line == "```" + language;
    } else if (inside) {
      lines.push_back(line);
    }
  }
  return lines;
}

/// The arguments of the commands of a page, without "lockstep".
inline std::vector<std::vector<std::string>> commands_of(const std::string& page) {
  std::vector<std::vector<std::string>> commands;
  for (const std::string& line : lines_in_blocks(page, "sh")) {
    if (!line.starts_with("lockstep ")) continue;
    std::vector<std::string> words;
    bool quoted = false, begun = false;
    for (const char c : line.substr(9)) {
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ' ' && !quoted) {
        begun = false;
      } else {
        if (!begun) words.emplace_back();
        begun = true;
        words.back() += c;
      }
    }
    commands.push_back(words);
  }
  return commands;
}

/// Makes a folder the working folder as long as it lives.
struct WorkingFolder {
  explicit WorkingFolder(const std::filesystem::path& folder)
      : before(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~WorkingFolder() { std::filesystem::current_path(before); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;
  std::filesystem::path before;
};

}  // namespace lockstep::test
