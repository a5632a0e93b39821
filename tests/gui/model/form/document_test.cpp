#include "gui/model/form/document.hpp"

#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

TEST_CASE("a document is modified when its text is not the saved one", "[gui][form]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", "a = 1\n");
  EditedDocument document;
  CHECK_FALSE(document.is_open());
  CHECK_FALSE(document.open(folder / "none.toml").ok());
  CHECK_FALSE(document.is_open());
  REQUIRE(document.open(folder / "s.toml").ok());
  CHECK(document.now().text == "a = 1\n");
  CHECK_FALSE(document.is_modified());
  CHECK(document.edit({"a = 2\n", {}}));
  CHECK_FALSE(document.edit({"a = 2\n", {}}));  // the same again
  CHECK(document.is_modified());
  document.undo();
  CHECK_FALSE(document.is_modified());
  CHECK(document.can_redo());
  document.redo();
  REQUIRE(document.save(folder / "t.toml").ok());
  CHECK(document.path() == folder / "t.toml");
  CHECK_FALSE(document.is_modified());
}

TEST_CASE("a key has one override at most, and none when it is taken away", "[gui][form]") {
  EditedDocument document;
  CHECK(document.set_override("a.b", "1"));
  CHECK(document.set_override("a.bc", "3"));
  CHECK(document.set_override("a.b", "2"));
  CHECK(document.now().overrides == std::vector<std::string>{"a.bc=3", "a.b=2"});
  CHECK(document.set_override("a.b", std::nullopt));
  CHECK_FALSE(document.set_override("a.b", std::nullopt));
  CHECK(document.now().overrides == std::vector<std::string>{"a.bc=3"});
}

TEST_CASE("sliders are changes, are written into the file, and come back by undo", "[gui][form]") {
  const TemporaryFolder folder;
  const std::string text = read_bytes(LOCKSTEP_SOURCE_DIR "/scenarios/schedules/1f1b-p4-m8.toml");
  write_bytes(folder / "s.toml", text);
  EditedDocument document;
  REQUIRE(document.open(folder / "s.toml").ok());
  REQUIRE(document.set_override("parallelism.pipeline_parallel_microbatches", "12"));
  CHECK(document.is_modified());
  REQUIRE(document.save(folder / "s.toml").ok());
  CHECK_FALSE(document.is_modified());
  CHECK(document.now().overrides.empty());
  CHECK(read_bytes(folder / "s.toml") == document.now().text);
  CHECK(document.now().text.find("pipeline_parallel_microbatches = 12") != std::string::npos);
  document.undo();
  CHECK(document.is_modified());
  CHECK(document.now().text == text);
  CHECK(document.now().overrides.size() == 1);
}

TEST_CASE("a file that another program has changed is not overwritten unasked, and is read again",
          "[gui][form]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", "a = 1\n");
  EditedDocument document;
  REQUIRE(document.open(folder / "s.toml").ok());
  CHECK_FALSE(document.is_changed_elsewhere());
  CHECK_FALSE(document.reread());
  write_bytes(folder / "s.toml", "a = 2\n");
  CHECK(document.is_changed_elsewhere());
  REQUIRE(document.reread());
  CHECK(document.now().text == "a = 2\n");
  CHECK_FALSE(document.is_modified());
  document.undo();  // what was read first is a step back
  CHECK(document.now().text == "a = 1\n");
  write_bytes(folder / "s.toml", "a = 3\n");
  CHECK_FALSE(document.reread());  // it would lose a change
  CHECK(document.is_changed_elsewhere());
  REQUIRE(document.save(folder / "s.toml").ok());
  CHECK_FALSE(document.is_changed_elsewhere());
  std::filesystem::remove(folder / "s.toml");
  CHECK_FALSE(document.is_changed_elsewhere());  // saving would overwrite nothing
  CHECK_FALSE(document.reread());
}

TEST_CASE("what is typed after saving is a step of its own", "[gui][form]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", "a");
  EditedDocument document;
  REQUIRE(document.open(folder / "s.toml").ok());
  document.edit({"ab", {}}, "typed");
  REQUIRE(document.save(folder / "s.toml").ok());
  document.edit({"abc", {}}, "typed");
  document.undo();
  CHECK(document.now().text == "ab");
}

TEST_CASE("what was not saved is restored over what the file had", "[gui][form]") {
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", "a = 1\n");
  EditedDocument before;
  REQUIRE(before.open(folder / "s.toml").ok());
  CHECK_FALSE(before.unsaved());
  before.edit({"a = 2\n", {"b.c=3"}});
  REQUIRE(before.unsaved());
  EditedDocument after;
  after.restore(*before.unsaved());
  CHECK(after.path() == folder / "s.toml");
  CHECK(after.now() == before.now());
  CHECK(after.is_modified());
  CHECK_FALSE(after.is_changed_elsewhere());
  after.undo();
  CHECK_FALSE(after.is_modified());
  EditedDocument fresh;
  fresh.restore({"", "", {"a = 5\n", {}}});  // one that never had a file
  CHECK(fresh.is_modified());
  CHECK_FALSE(fresh.can_undo());
}

TEST_CASE("a scenario that came with Lockstep is never overwritten", "[gui][form]") {
  const TemporaryFolder folder;
  const std::string lesson = LOCKSTEP_SOURCE_DIR "/scenarios/lessons/one-f-one-b.toml";
  const std::string text = read_bytes(lesson);
  EditedDocument document;
  REQUIRE(document.open(lesson).ok());
  CHECK_FALSE(document.has_own_file());
  REQUIRE(document.edit({text + "\n# mine\n", {}}));
  CHECK_FALSE(document.save(lesson).ok());
  CHECK(read_bytes(lesson) == text);
  REQUIRE(document.save(folder / "mine.toml").ok());
  CHECK(document.has_own_file());
}

TEST_CASE("the command of a document says what is shown, text that was changed included",
          "[gui][form]") {
  const TemporaryFolder folder;
  const std::string file = folder / "my s.toml";
  std::string text = read_bytes(LOCKSTEP_SOURCE_DIR "/scenarios/schedules/1f1b-p4-m8.toml");
  write_bytes(file, text);
  EditedDocument document;
  REQUIRE(document.open(file).ok());
  CHECK(*document.command() == "lockstep run '" + file + "'");
  REQUIRE(document.set_override("parallelism.pipeline_parallel_microbatches", "12"));
  CHECK(*document.command() ==
        "lockstep run '" + file + "' --set parallelism.pipeline_parallel_microbatches=12");
  const std::string key = "pipeline_parallel_degree = 4";
  REQUIRE(text.find(key) != std::string::npos);
  REQUIRE(document.edit({text.replace(text.find(key), key.size(), "pipeline_parallel_degree = 2"),
                         document.now().overrides}));
  const std::string command = *document.command();
  CHECK_THAT(command,
             ContainsSubstring(" --set parallelism.pipeline_parallel_degree=2") &&
                 ContainsSubstring(" --set parallelism.pipeline_parallel_microbatches=12"));
  document.begin(folder / "not there.toml", document.now());
  CHECK_FALSE(document.command().ok());
}

}  // namespace
}  // namespace lockstep::gui
