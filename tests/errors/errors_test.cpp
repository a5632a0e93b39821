#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(LOCKSTEP_SOURCE_DIR) / "tests" / "errors";

/// The comments that a bad scenario starts with:
///   # expect: 5:1: message       an error in this file; all of them, in order
///   # expect: other.toml:4:1: …  in another file of the folder, or "--set: …"
///   # set: key=value             an override it is read with
/// A message that ends in " ..." may go on: toml++ words its own differently by version.
struct BadScenario {
  std::vector<std::string> overrides, expected;
};

BadScenario read_comments(const fs::path& path) {
  BadScenario bad;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && line.starts_with("# ");) {
    if (line.starts_with("# expect: ")) bad.expected.push_back(line.substr(10));
    if (line.starts_with("# set: ")) bad.overrides.push_back(line.substr(7));
  }
  return bad;
}

std::string without_prefix(const std::string& text, const std::string& prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

bool matches(const std::string& text, const std::string& expected) {
  constexpr std::string_view kOpen = " ...";
  return expected.ends_with(kOpen)
             ? text.starts_with(expected.substr(0, expected.size() - kOpen.size()))
             : text == expected;
}

TEST_CASE("every bad scenario gets exactly its messages, each with its place", "[errors]") {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() > 40);
  for (const fs::path& path : files) {
    const BadScenario bad = read_comments(path);
    const LoadedScenario loaded = load_scenario(path.string(), bad.overrides);
    std::vector<std::string> messages;
    for (const Error& error : loaded.errors) {
      const std::string text = without_prefix(to_string(error), path.string() + ":");
      std::string folder = kFolder.string() + "/", relative = text;
      for (std::size_t at; (at = relative.find(folder)) != std::string::npos;) {
        relative.erase(at, folder.size());
      }
      messages.push_back(relative);
      CHECK(exit_code(error.kind) == 2);
    }
    INFO(path.filename().string());
    CHECK(loaded.points.empty());
    CHECK_FALSE(bad.expected.empty());
    CHECK(messages.size() == bad.expected.size());
    for (std::size_t i = 0; i < std::min(messages.size(), bad.expected.size()); ++i) {
      if (!matches(messages[i], bad.expected[i])) CHECK(messages[i] == bad.expected[i]);
    }
  }
}

TEST_CASE("a scenario that cannot be read is an error of its name", "[errors]") {
  const LoadedScenario loaded = load_scenario("no/such/scenario.toml", {});
  REQUIRE(loaded.errors.size() == 1);
  CHECK(to_string(loaded.errors[0]) ==
        "cannot read no/such/scenario.toml: No such file or directory");
}

}  // namespace
}  // namespace lockstep
