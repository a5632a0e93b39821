#include "gui/model/form/kept_changes.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep::gui {
namespace {

const Unsaved kFirst{
    "/somewhere/s.toml", "a = 1\n", {"a = 2 # \xc3\xa9\n", {"b.c=3", "d.e=\"x\""}}};
const Unsaved kSecond{"", "", {"new\n", {}}};

/// Does something in another process, which is killed then.
template <class Work>
void die_after(const QString& folder, const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    KeptChanges kept(folder);
    work(kept);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
}

void keep_and_die(const QString& folder) {
  die_after(folder, [](KeptChanges& kept) {
    kept.keep(3, kFirst);
    kept.keep(4, kFirst);
    kept.keep(7, kSecond);
    kept.keep(4, std::nullopt);  // saved meanwhile
  });
}

std::ptrdiff_t files_in(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path),
                       std::filesystem::directory_iterator());
}

TEST_CASE("what a killed session had not saved is taken over once, in its order", "[gui][form]") {
  const TemporaryFolder folder;
  const QString name = QString::fromStdString(folder.path.string());
  keep_and_die(name);
  KeptChanges next(name);
  CHECK(next.take_over(0) == std::vector<LeftBehind>{{kFirst, 1}, {kSecond, 1}});
  CHECK(next.take_over(2).empty());
  CHECK(files_in(folder) == 3);  // with its own lock
  next.keep(0, std::nullopt);
  next.keep(1, std::nullopt);
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a session that is killed once it has taken something over loses nothing of it",
          "[gui][form]") {
  const TemporaryFolder folder;
  const QString name = QString::fromStdString(folder.path.string());
  keep_and_die(name);
  die_after(name, [](KeptChanges& kept) { kept.take_over(5); });
  CHECK(KeptChanges(name).take_over(0) == std::vector<LeftBehind>{{kFirst, 2}, {kSecond, 2}});
}

TEST_CASE("sessions that died are counted for as long as nobody changes what they had open",
          "[gui][form]") {
  const TemporaryFolder folder;
  const QString name = QString::fromStdString(folder.path.string());
  die_after(name, [](KeptChanges& kept) { kept.keep(0, kFirst); });
  die_after(name, [](KeptChanges& kept) {
    kept.take_over(0);
    kept.keep(0, kFirst);  // as it is
  });
  die_after(name, [](KeptChanges& kept) {
    if (kept.take_over(0) == std::vector<LeftBehind>{{kFirst, 2}}) kept.keep(0, kSecond);
  });
  CHECK(KeptChanges(name).take_over(0) == std::vector<LeftBehind>{{kSecond, 1}});
}

TEST_CASE("a session that lives keeps what is its own, and one that ends leaves nothing",
          "[gui][form]") {
  const TemporaryFolder folder;
  const QString name = QString::fromStdString(folder.path.string());
  {
    KeptChanges one(name), other(name);
    one.keep(0, kFirst);
    CHECK(other.take_over(0).empty());
    CHECK(files_in(folder) == 3);
  }
  CHECK(files_in(folder) == 0);
}

TEST_CASE("a kept file that was cut is passed over, and the others are not", "[gui][form]") {
  const TemporaryFolder folder;
  const QString name = QString::fromStdString(folder.path.string());
  keep_and_die(name);
  bool cut = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    if (entry.path().string().find("000003.json") == std::string::npos) continue;
    const std::string bytes = read_bytes(entry.path());
    write_bytes(entry.path(), bytes.substr(0, bytes.size() / 2));
    cut = true;
  }
  REQUIRE(cut);
  CHECK(KeptChanges(name).take_over(0) == std::vector<LeftBehind>{{kSecond, 1}});
}

TEST_CASE("where nothing can be kept, nothing is, and nothing fails", "[gui][form]") {
  KeptChanges kept("/dev/null/folder");
  kept.keep(0, kFirst);
  CHECK(kept.take_over(0).empty());
}

}  // namespace
}  // namespace lockstep::gui
