#include "core/run_folder/run_lock.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "core/run_folder/run_folder.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {

namespace {

StepResult step(int n) { return {n, 1.5, 0.5, 0.1, Seconds{2}}; }

}  // namespace

TEST_CASE("a folder has one run at a time, and is free when its holder is gone",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  {
    const auto first = RunLock::take(folder.path.string(), "one");
    REQUIRE(first.ok());
    CHECK_THAT(read_lock(folder.path.string()),
               ContainsSubstring("process ") && ContainsSubstring("\none\n"));
    const auto second = RunLock::take(folder.path.string(), "two");
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().kind == ErrorKind::InvalidSpec);
    CHECK_THAT(second.error().message, ContainsSubstring("is in use by another run (process "));
    CHECK_THAT(read_lock(folder.path.string()), ContainsSubstring("\none\n"));
  }
  // The file is still there; it locks nothing.
  CHECK(RunLock::take(folder.path.string(), "three").ok());
}

TEST_CASE("a run notices that its folder was removed or moved, also if another stands there",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  std::filesystem::create_directories(run);
  const auto lock = RunLock::take(run, "one");
  REQUIRE(lock.ok());
  CHECK(lock->check().ok());
  std::filesystem::rename(run, folder / "moved");
  const auto moved = lock->check();
  REQUIRE_FALSE(moved.ok());
  CHECK(moved.error().kind == ErrorKind::Device);
  CHECK_THAT(moved.error().message,
             ContainsSubstring("--out " + run + " was removed or moved while the run wrote"));
  std::filesystem::create_directories(run);
  REQUIRE(RunLock::take(run, "two").ok());
  CHECK_FALSE(lock->check().ok());
  std::filesystem::remove_all(run);
  std::filesystem::rename(folder / "moved", run);
  CHECK(lock->check().ok());
}

TEST_CASE("metrics that cannot be written leave whole lines, and are written again later",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  auto log = MetricsLog::open(path, 0);
  REQUIRE(log.ok());
  REQUIRE(log->append(step(0), 8, {Seconds{0.25}}).ok());
  REQUIRE(log->append(step(1), 8).ok());
  REQUIRE(log->append(step(2), 8).ok());
  // A run that goes back to step 1 takes the lines of later steps with it.
  REQUIRE(log->append(step(1), 8).ok());
  const std::string text = read_bytes(path);
  CHECK(text ==
        "{\"step\":1,\"loss\":1.5,\"grad_norm\":0.5,\"lr\":0.1,\"time\":2.0,"
        "\"throughput(tps)\":4.0,\"save_time\":0.25}\n"
        "{\"step\":2,\"loss\":1.5,\"grad_norm\":0.5,\"lr\":0.1,\"time\":2.0,"
        "\"throughput(tps)\":4.0}\n");
}

TEST_CASE("a line of metrics that does not fit on the disk is left out whole, with an error",
          "[core][run_folder]") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  auto log = MetricsLog::open(path, 0);
  REQUIRE(log.ok());
  REQUIRE(log->append(step(0), 8).ok());
  const std::string first = read_bytes(path);
  // A limit on the size of files stands for a full disk: a part of the line can be written.
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit narrow = old;
  narrow.rlim_cur = first.size() + 10;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &narrow) == 0);
  const auto full = log->append(step(1), 8);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  ::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(full.ok());
  CHECK(full.error().kind == ErrorKind::Device);
  CHECK_THAT(full.error().message, ContainsSubstring("cannot write " + path));
  CHECK(read_bytes(path) == first);
  REQUIRE(log->append(step(2), 8).ok());
  const std::string text = read_bytes(path);
  CHECK(text.starts_with(first + "{\"step\":3,"));
  CHECK(text.ends_with("}\n"));
}

}  // namespace lockstep
