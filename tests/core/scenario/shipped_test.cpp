#include "core/scenario/shipped.hpp"

#include <fstream>

#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

TEST_CASE("a scenario's first comment introduces it", "[core][scenario]") {
  CHECK(opening_words("# Lesson 2: the model\n# is cut.\n\n# not this\n[model]\n") ==
        "Lesson 2: the model is cut.");
  CHECK(opening_words("[model]\n# too late\n").empty());
  CHECK(opening_words("").empty());
}

TEST_CASE("the shipped scenarios are found from the executable, and all introduce themselves",
          "[core][scenario]") {
  const std::filesystem::path folder = shipped_scenarios();
  REQUIRE_FALSE(folder.empty());
  const std::vector<std::filesystem::path> files = scenario_files(folder);
  CHECK(std::is_sorted(files.begin(), files.end()));
  CHECK(std::find(files.begin(), files.end(), "lessons/ddp.toml") != files.end());
  for (const auto& file : files) {
    INFO(file);
    CHECK_FALSE(opening_words(read_bytes((folder / file).string())).empty());
  }
}

TEST_CASE("a folder that is not there has no scenarios", "[core][scenario]") {
  const TemporaryFolder folder;
  CHECK(scenario_files(folder / "none").empty());
}

TEST_CASE("a file is shipped by whatever path it is named, and a copy of it is not", "[scenario]") {
  const std::filesystem::path lesson = shipped_scenarios() / "lessons/ddp.toml";
  CHECK(is_shipped(lesson));
  CHECK(is_shipped(lesson.parent_path() / ".." / "lessons" / "ddp.toml"));
  const TemporaryFolder folder;
  std::filesystem::create_symlink(lesson, folder / "link.toml");
  CHECK(is_shipped(folder / "link.toml"));
  std::filesystem::copy_file(lesson, folder / "copy.toml");
  CHECK_FALSE(is_shipped(folder / "copy.toml"));
}

}  // namespace
}  // namespace lockstep
