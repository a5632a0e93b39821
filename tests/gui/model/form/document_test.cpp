#include "gui/model/form/document.hpp"

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

}  // namespace
}  // namespace lockstep::gui
