#include "core/run_folder/folder_claim.hpp"

#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A run that writes what it is about to run, and is refused.
void be_refused(const fs::path& folder, bool begins = false) {
  FolderClaim claim(folder.string(), "checkpoints");
  fs::create_directories(folder / "checkpoints");
  for (const char* name : {".lock", "scenario.toml", "program.txt", "metrics.jsonl"}) {
    write_bytes((folder / name).string(), "x");
  }
  claim.arm();
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

}  // namespace lockstep
