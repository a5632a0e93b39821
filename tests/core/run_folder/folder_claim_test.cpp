#include "core/run_folder/folder_claim.hpp"

#include <filesystem>
#include <map>
#include <string>

#include "core/run_folder/run_folder.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A run that writes what it is about to run, and is refused.
void be_refused(const fs::path& folder, bool begins = false) {
  FolderClaim claim(folder.string(), "checkpoints");
  fs::create_directories(folder);
  claim.arm();
  fs::create_directories(folder / "checkpoints");
  for (const char* name : {".lock", "scenario.toml", "program.txt", "metrics.jsonl"}) {
    write_bytes((folder / name).string(), "x");
  }
  if (begins) claim.keep();
}

}  // namespace

TEST_CASE("a run that is refused leaves no folder, or the empty one that was there",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  be_refused(folder.path / "new/run");
  CHECK(!fs::exists(folder.path / "new/run"));
  CHECK(fs::is_empty(folder.path / "new"));
  fs::create_directories(folder.path / "old");
  write_bytes(folder / "old/.lock", "left by a crash");
  be_refused(folder.path / "old");
  CHECK(fs::is_empty(folder.path / "old"));
}

TEST_CASE("a run may begin where another was killed while it wrote its first file",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  write_bytes(folder / ".lock", "left by a crash");
  write_bytes(folder / "scenario.toml.4711.tmp", "half");
  CHECK(prepare_run_folder(folder.path.string(), "checkpoints", false).ok());
  be_refused(folder.path);
  CHECK(fs::is_empty(folder.path));
  for (const char* name : {"scenario.toml.tmp", "scenario.toml.4x.tmp", "thesis.txt.4711.tmp"}) {
    CHECK_FALSE(is_half_written(name));
  }
}

TEST_CASE("a folder keeps what a run that has begun put there, and what others have",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  be_refused(folder.path / "begun", true);
  CHECK(fs::exists(folder.path / "begun/program.txt"));
  be_refused(folder.path / "begun");  // it holds a run now
  CHECK(fs::exists(folder.path / "begun/metrics.jsonl"));
  {
    FolderClaim claim(folder / "hung", "checkpoints");
    claim.arm();
    fs::create_directories(folder.path / "hung");
    write_bytes(folder / "hung/flight-0.txt", "what hung");
    write_bytes(folder / "hung/program.txt", "x");
  }
  CHECK(fs::exists(folder.path / "hung/program.txt"));
  {
    FolderClaim claim(folder / "saved", "checkpoints");
    claim.arm();
    fs::create_directories(folder.path / "saved/checkpoints/step-2");
  }
  CHECK(fs::exists(folder.path / "saved/checkpoints/step-2"));
  {
    FolderClaim unarmed(folder / "other", "checkpoints");  // another run has the lock
    fs::create_directories(folder.path / "other");
    write_bytes(folder / "other/.lock", "x");
  }
  CHECK(fs::exists(folder.path / "other/.lock"));
}

TEST_CASE("a run follows no link in the place of a folder that it makes", "[core][run_folder]") {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  const fs::path run = folder / "run", other = folder / "other";
  fs::create_directories(run);
  fs::create_directories(other);
  for (const char* name : {"checkpoints", "tb"}) {
    fs::create_directory_symlink(other, run / name);
    const auto taken = prepare_run_folder(run.string(), "checkpoints", true);
    REQUIRE_FALSE(taken.ok());
    CHECK(taken.error().kind == ErrorKind::InvalidSpec);
    CHECK_THAT(taken.error().message, ContainsSubstring(std::string(name) + " is a link"));
    fs::remove(run / name);
  }
  CHECK(prepare_run_folder(run.string(), "checkpoints", true).ok());
  CHECK(fs::is_empty(other));
}

TEST_CASE("an older run comes back as it was when a later one is refused", "[core][run_folder]") {
  const TemporaryFolder folder;
  const fs::path run = folder.path / "run";
  fs::create_directories(run / "checkpoints");
  fs::create_directories(run / "tb");
  const std::map<std::string, std::string> old = {
      {"program.txt", "the old program"}, {"metrics.jsonl", "the old metrics"},
      {"report.json", "the old report"},  {"trace.json.gz", "the old trace"},
      {"tb/events.1", "the old events"},  {".lock", "left by a crash"}};
  for (const auto& [name, text] : old) write_bytes((run / name).string(), text);
  const auto check_old = [&] {
    for (const auto& [name, text] : old) {
      INFO(name);
      if (name != ".lock") CHECK(read_bytes((run / name).string()) == text);
    }
    CHECK_FALSE(fs::exists(run / "scenario.toml"));  // it was the run of a program's text
    CHECK_FALSE(fs::exists(run / "tb/events.2"));
    CHECK_FALSE(fs::exists(run / ".before"));
  };
  const auto take = [&](FolderClaim& claim) {
    claim.arm();
    for (const char* name : {".lock", "scenario.toml", "program.txt", "metrics.jsonl"}) {
      REQUIRE(write_file((run / name).string(), "new"));
    }
    write_bytes((run / "tb/events.2").string(), "new");
  };
  SECTION("at once") {
    {
      FolderClaim claim(run.string(), "checkpoints");
      take(claim);
      CHECK(read_bytes((run / "program.txt").string()) == "new");
    }
    check_old();
  }
  SECTION("through a link, whose file stays where it is") {
    fs::rename(run / "metrics.jsonl", folder.path / "elsewhere");
    fs::create_symlink(folder.path / "elsewhere", run / "metrics.jsonl");
    {
      FolderClaim claim(run.string(), "checkpoints");
      take(claim);
    }
    check_old();
  }
  SECTION("in the next run, if the refused one was killed") {
    fs::create_directories(run / ".before");
    fs::rename(run / "program.txt", run / ".before/program.txt");
    fs::rename(run / "metrics.jsonl", run / ".before/metrics.jsonl");
    write_bytes((run / "program.txt").string(), "killed");
    { FolderClaim(run.string(), "checkpoints").arm(); }
    check_old();
  }
  SECTION("without what a killed run has written in part") {
    write_bytes((run / "program.txt.123.tmp").string(), "half");
    write_bytes((run / "notes.123.tmp").string(), "the user's");
    { FolderClaim(run.string(), "checkpoints").arm(); }
    check_old();
    CHECK_FALSE(fs::exists(run / "program.txt.123.tmp"));
    CHECK(fs::exists(run / "notes.123.tmp"));
  }
  SECTION("unless the later one was killed when it had just begun") {
    fs::create_directories(run / ".begun");
    write_bytes((run / ".begun/program.txt").string(), "older");
    {
      FolderClaim claim(run.string(), "checkpoints");
      take(claim);
    }
    CHECK(read_bytes((run / "program.txt").string()) == "the old program");
    CHECK_FALSE(fs::exists(run / "report.json"));
    CHECK_FALSE(fs::exists(run / ".begun"));
  }
  SECTION("unless it has begun: then its report and trace would be taken for the new one's") {
    {
      FolderClaim claim(run.string(), "checkpoints");
      take(claim);
      claim.keep();
    }
    CHECK(read_bytes((run / "program.txt").string()) == "new");
    CHECK(fs::exists(run / "tb/events.1"));
    CHECK_FALSE(fs::exists(run / "report.json"));
    CHECK_FALSE(fs::exists(run / "trace.json.gz"));
    CHECK_FALSE(fs::exists(run / ".before"));
  }
}

}  // namespace lockstep
